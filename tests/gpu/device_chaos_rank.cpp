// SPDX-License-Identifier: Apache-2.0
// This program is one rank of a communicator's life on a device, for device_chaos_test.py: `device_chaos_rank KIND
// VICTIM DELAY_US COUNT MANNER`. It sums until the communicator fails, and gives everything back. If the victim has
// died, the others shrink the communicator and go on. The program prints the status and which objects of the driver
// are still alive. MANNER is "calls", or "replays" with a call as every third sum. With DEVICE_CHAOS_REGISTERS=1 it
// registers its buffer. With DEVICE_CHAOS_DEVICES=n, rank r is on device r modulo n.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "src/base/clock.h"
#include "tests/gpu/device_process.h"
#include "tests/sanitized.h"
#include "tests/soft_cuda/soft_cuda.h"

using namespace rondo_test;

namespace {

constexpr int calm_rounds = 20, rounds_max = 1'000'000;
constexpr uint64_t patience_ns = 100'000'000'000;
constexpr uint32_t timeout_ms = 60'000;

struct Fate {
  std::string kind;
  int victim = 0;
  long delay_us = 0;
  bool replays = false;
};

/// Lets this rank fail. It runs on its own thread, since the caller may wait for a kernel, and the kernel for a peer.
void strike(const DeviceProcess &self, const Fate &fate) {
  std::this_thread::sleep_for(std::chrono::microseconds(fate.delay_us));
  if (fate.kind == "kill" || fate.kind == "early") ::raise(SIGKILL);
  if (fate.kind == "exit") ::_exit(0);
  if (fate.kind == "abort") static_cast<void>(rondo_comm_abort(self.comm));
}

/// Returns the timeout of lives in which a rank falls silent. No rank that still calls is late by as much.
uint32_t silent_timeout_ms() { return sanitized() ? 25'000 : 8'000; }

/// Makes no call, and waits until the communicator has failed.
int wait_silently(const DeviceProcess &self) {
  const uint64_t deadline_ns = rondo::now_ns() + patience_ns;
  rondo_status_t state = RONDO_OK;
  while (state == RONDO_OK && rondo::now_ns() < deadline_ns) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    static_cast<void>(rondo_comm_get_async_error(self.comm, &state));
  }
  return state;
}

/// Registers the buffer if DEVICE_CHAOS_REGISTERS says so. It stays registered until the communicator's end.
int register_buffer(const DeviceProcess &self) {
  const char *const text = std::getenv("DEVICE_CHAOS_REGISTERS");
  if (text == nullptr || std::atoi(text) == 0) return RONDO_OK;
  rondo_registration_t registration = nullptr;
  return rondo_comm_register(self.comm, reinterpret_cast<void *>(self.buffer.get().object),
                             self.count * sizeof(int32_t), 0, &registration);
}

int live_through(const DeviceProcess &self, const Fate &fate, uint64_t struck_ns) {
  const bool victim = self.rank == fate.victim;
  rondo::cuda::GraphExec graph;
  int outcome = fate.replays ? capture_sum(self, self.count, graph) : int{RONDO_OK};
  for (int round = 2; round < rounds_max && outcome == RONDO_OK; ++round) {
    if (fate.kind == "none" && round == calm_rounds) return rondo_comm_finalize(self.comm);
    const bool now = victim && rondo::now_ns() >= struck_ns;
    if (now && fate.kind == "silent") return wait_silently(self);
    outcome = sum_once(self, round, self.count - (now && fate.kind == "disagree" ? 1 : 0),
                       fate.replays && round % 3 != 0 ? &graph : nullptr);
  }
  return outcome;
}

/// Continues without the victim, which has died: shrinks the communicator, sums, and prints whether that succeeded.
void survive(DeviceProcess &self, const Fate &fate) {
  rondo_comm_t rest = nullptr;
  int outcome = rondo_comm_shrink(self.comm, &fate.victim, 1, RONDO_SHRINK_ABORT, nullptr, &rest);
  if (outcome == RONDO_OK) {
    const rondo_comm_t parent = std::exchange(self.comm, rest);
    const int rank = self.rank, size = self.size;
    static_cast<void>(rondo_comm_rank(self.comm, &self.rank));
    static_cast<void>(rondo_comm_size(self.comm, &self.size));
    for (int round = 1; round <= 3 && outcome == RONDO_OK; ++round) outcome = sum_once(self, round, self.count);
    if (outcome == RONDO_OK) outcome = rondo_comm_destroy(self.comm);
    self.comm = parent;
    self.rank = rank;
    self.size = size;
  }
  if (outcome == RONDO_OK) {
    std::printf("rank %d goes on\n", self.rank);
  } else {
    std::printf("rank %d cannot go on: %d, %s\n", self.rank, outcome, rondo_last_error_message(nullptr));
  }
}

int live(DeviceProcess &self, const Fate &fate, bool is_victim) {
  std::thread striker;
  if (is_victim && fate.kind == "early") striker = std::thread(strike, std::cref(self), std::cref(fate));
  int outcome = join(self, fate.kind == "silent" ? silent_timeout_ms() : timeout_ms);
  const bool made = outcome == RONDO_OK;
  if (made) outcome = register_buffer(self);
  if (outcome == RONDO_OK) outcome = sum_once(self, 1, self.count);
  if (outcome == RONDO_OK) {
    const bool strikes = fate.kind == "kill" || fate.kind == "exit" || fate.kind == "abort";
    if (is_victim && strikes) striker = std::thread(strike, std::cref(self), std::cref(fate));
    outcome = live_through(self, fate, rondo::now_ns() + static_cast<uint64_t>(fate.delay_us) * 1000);
  }
  const bool is_left = made && !is_victim && outcome == RONDO_ERROR_REMOTE;
  if (is_left && (fate.kind == "kill" || fate.kind == "exit")) survive(self, fate);
  report(self, outcome);
  if (striker.joinable()) striker.join();
  if (made) static_cast<void>(rondo_comm_destroy(self.comm));
  return outcome == wrong_value ? 3 : 0;
}

/// Prints which objects of the driver in software are alive. Returns whether there are none.
bool left_nothing(const std::string &library) {
  auto *const ask = soft_cuda_function<void(SoftCudaLive *)>(library, "soft_cuda_live");
  if (ask == nullptr) return true;
  SoftCudaLive live;
  ask(&live);
  if (live == SoftCudaLive()) return true;
  std::printf("left: contexts %llu, streams %llu, events %llu, device memory %llu, host memory %llu, imports %llu\n",
              static_cast<unsigned long long>(live.contexts), static_cast<unsigned long long>(live.streams),
              static_cast<unsigned long long>(live.events), static_cast<unsigned long long>(live.device_allocations),
              static_cast<unsigned long long>(live.host_allocations),
              static_cast<unsigned long long>(live.ipc_imports));
  return false;
}

}  // namespace

int main(int argument_count, char **arguments) {
  if (argument_count != 6) {
    std::fprintf(stderr, "usage: device_chaos_rank KIND VICTIM DELAY_US COUNT MANNER\n");
    return 2;
  }
  const Fate fate{arguments[1], std::atoi(arguments[2]), std::atol(arguments[3]),
                  arguments[5] == std::string("replays")};
  const char *const rank = std::getenv("RANK");
  if (rank == nullptr) return 2;
  int status = 0;
  std::string library;
  {
    DeviceProcess self;
    const char *const devices = std::getenv("DEVICE_CHAOS_DEVICES");
    if (devices != nullptr) self.device = std::atoi(rank) % std::max(std::atoi(devices), 1);
    const auto ready = set_up(self, static_cast<size_t>(std::atol(arguments[4])));
    if (self.cu != nullptr) library = self.cu->library;
    if (ready.ok()) {
      status = live(self, fate, std::atoi(rank) == fate.victim);
    } else {
      std::printf("rank %s: no set-up: %s\n", rank, ready.error().message.c_str());
    }
  }
  return left_nothing(library) ? status : 4;
}
