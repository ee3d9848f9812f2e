// SPDX-License-Identifier: Apache-2.0
// The scenarios of rank_program that use windows.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/proc/rank_program.h"
#include "tests/window_program.h"

using namespace rondo_test;

namespace {

rondo_status_t run_window_program(const Rank &self, uint64_t seed) {
  WindowProgram program(seed, static_cast<uint32_t>(self.size));
  const size_t bytes = program.window_bytes();
  std::vector<std::byte> own(bytes), source(bytes);
  rondo_window_t window = nullptr;
  if (const auto made = rondo_window_register(self.comm, own.data(), bytes, 0, &window); made != RONDO_OK) return made;
  const auto status = program.run(static_cast<uint32_t>(self.rank), self.comm, nullptr, window, own.data(),
                                  source.data(), {});
  return status == RONDO_OK ? rondo_window_deregister(self.comm, window) : status;
}

}  // namespace

/// FIRST LAST: runs the random window programs of the seeds FIRST to LAST, then finalizes.
int run_windows(const Rank &self, const Arguments &args) {
  for (uint64_t seed = std::stoull(args[0]); seed <= std::stoull(args[1]); ++seed) {
    const auto status = run_window_program(self, seed);
    if (status == RONDO_OK) continue;
    std::printf("seed %llu failed\n", static_cast<unsigned long long>(seed));
    return report(self, status);
  }
  return report(self, rondo_comm_finalize(self.comm));
}

/// SIGNAL FILE: rank 1 puts a value to rank 0, signals once more, and sends itself SIGNAL. When the file exists, rank 0
/// finds the value and both signals. Then it lets the other ranks wait for rank 1, and puts to rank 1.
int run_last_put(const Rank &self, const Arguments &args) {
  int64_t own = 0;
  const int64_t value = 77;
  rondo_window_t window = nullptr;
  auto status = rondo_window_register(self.comm, &own, sizeof own, 0, &window);
  if (status != RONDO_OK) return report(self, status);
  if (self.rank == 1) {
    status = rondo_put_signal(&value, sizeof value, 0, window, 0, 0, self.comm, nullptr);
    if (status == RONDO_OK) status = rondo_signal(0, 0, self.comm, nullptr);
    if (status != RONDO_OK) return report(self, status);
    ::raise(std::stoi(args[0]));
    return 1;
  }
  if (self.rank != 0) {
    status = rondo_wait_signal(0, 0, 1, self.comm, nullptr);  // a wait for rank 1 would end the communicator too early
    return report(self, status == RONDO_OK ? rondo_wait_signal(1, 0, 1, self.comm, nullptr) : status);
  }
  for (int look = 0; look < 12'000 && ::access(args[1].c_str(), F_OK) != 0; ++look)  // two minutes
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  for (int each = 0; each < 2 && status == RONDO_OK; ++each)
    status = rondo_wait_signal(1, 0, 1, self.comm, nullptr);
  if (status != RONDO_OK || own != value) return finish(self, status == RONDO_OK ? -1 : status);
  std::printf("received\n");
  for (int other = 2; other < self.size && status == RONDO_OK; ++other)
    status = rondo_signal(other, 0, self.comm, nullptr);
  if (status != RONDO_OK) return report(self, status);
  return report(self, rondo_put_signal(&value, sizeof value, 1, window, 0, 0, self.comm, nullptr));
}
