// SPDX-License-Identifier: Apache-2.0
// One rank of a job on a device, for device_process_test.py: `device_rank SCENARIO [replayed]`. Checks every result,
// and prints one line of what it got. replayed: every other sum is that of a graph.
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/gpu/device_process.h"

using namespace rondo_test;

namespace {

constexpr size_t count_default = 100'003;
constexpr int round_count = 6, death_round = 3;

/// Returns a number of the environment. DEVICE_RANK_COUNT: elements. DEVICE_RANK_TIMEOUT: milliseconds.
/// DEVICE_RANK_DEVICES: rank r is on device r modulo that. DEVICE_RANK_SLOW_SENDS: see send().
size_t number_of_environment(const char *name, size_t otherwise) {
  const char *const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// Gathers a part of each rank, and then replaces the first part by the part of rank 1.
int move_once(const DeviceProcess &self, int round) {
  using rondo::cuda::CuStatus;
  const size_t count = self.count;
  const size_t part = count / static_cast<size_t>(self.size), own = part * static_cast<size_t>(self.rank);
  std::vector<int32_t> values(count, -1);
  for (size_t i = 0; i < part; ++i) values[own + i] = static_cast<int32_t>(i) + 1000 * self.rank + round;
  const rondo::cuda::ContextGuard guard(*self.cu, self.context.get().context);
  auto *const stream = self.stream.get().object;
  const rondo::cuda::DevicePointer at = self.buffer.get().object;
  const size_t bytes = count * sizeof(int32_t);
  if (self.cu->memcpy_htod_async(at, values.data(), bytes, stream) != CuStatus::success) return driver_failed;
  auto *const pointer = reinterpret_cast<int32_t *>(at);
  const rondo_status_t gathered = rondo_all_gather(pointer + own, pointer, part, RONDO_INT32, self.comm, stream);
  if (gathered != RONDO_OK) return gathered;
  const rondo_status_t taken = rondo_broadcast(pointer + part, pointer, part, RONDO_INT32, 1, self.comm, stream);
  if (taken != RONDO_OK) return taken;
  if (const int outcome = copy_back(self, values.data(), bytes); outcome != RONDO_OK) return outcome;
  for (size_t i = 0; i < part * static_cast<size_t>(self.size); ++i) {
    const size_t owner = i < part ? 1 : i / part;
    if (values[i] != static_cast<int32_t>(i % part) + 1000 * static_cast<int32_t>(owner) + round) return wrong_value;
  }
  return RONDO_OK;
}

/// Sends one half of the buffer to the next rank, and receives the other half from the one before, in a group.
int message_once(const DeviceProcess &self, int round) {
  using rondo::cuda::CuStatus;
  const size_t half = self.count / 2;
  const auto value = [&](int rank, size_t i) { return static_cast<int32_t>(i % 1000) + 1000 * rank + 7 * round; };
  std::vector<int32_t> values(self.count, -1);
  for (size_t i = 0; i < half; ++i) values[i] = value(self.rank, i);
  const rondo::cuda::ContextGuard guard(*self.cu, self.context.get().context);
  auto *const stream = self.stream.get().object;
  const rondo::cuda::DevicePointer at = self.buffer.get().object;
  const size_t bytes = self.count * sizeof(int32_t);
  if (self.cu->memcpy_htod_async(at, values.data(), bytes, stream) != CuStatus::success) return driver_failed;
  auto *const pointer = reinterpret_cast<int32_t *>(at);
  const int next = (self.rank + 1) % self.size, previous = (self.rank + self.size - 1) % self.size;
  if (const auto begun = rondo_group_begin(); begun != RONDO_OK) return begun;
  static_cast<void>(rondo_send(pointer, half, RONDO_INT32, next, self.comm, stream));
  static_cast<void>(rondo_recv(pointer + half, half, RONDO_INT32, previous, self.comm, stream));
  if (const auto ended = rondo_group_end(); ended != RONDO_OK) return ended;
  if (const int outcome = copy_back(self, values.data(), bytes); outcome != RONDO_OK) return outcome;
  for (size_t i = 0; i < half; ++i)
    if (values[half + i] != value(previous, i)) return wrong_value;
  return RONDO_OK;
}

}  // namespace

/// In place of libc's: waits for DEVICE_RANK_SLOW_SENDS milliseconds first, but not where rank 0 asks its own store.
extern "C" ssize_t send(int socket, const void *data, size_t bytes, int flags) {
  static const size_t wait_ms = number_of_environment("DEVICE_RANK_SLOW_SENDS", 0);
  static const bool serves = number_of_environment("RANK", 0) == 0;
  if (wait_ms != 0 && !(serves && ::gettid() == ::getpid()))
    std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
  return ::sendto(socket, data, bytes, flags, nullptr, 0);
}

int main(int argument_count, char **arguments) {
  const std::string scenario = argument_count > 1 ? arguments[1] : "sums";
  const bool replayed = argument_count > 2;
  const size_t count = number_of_environment("DEVICE_RANK_COUNT", count_default);
  const size_t timeout_ms = number_of_environment("DEVICE_RANK_TIMEOUT", scenario == "silent" ? 6'000 : 20'000);
  DeviceProcess self;
  self.device = static_cast<int>(number_of_environment("RANK", 0) % number_of_environment("DEVICE_RANK_DEVICES", 1));
  rondo::cuda::GraphExec graph;
  if (const auto ready = set_up(self, count); !ready.ok()) {
    std::fprintf(stderr, "%s\n", ready.error().message.c_str());
    return 2;
  }
  int outcome = join(self, static_cast<uint32_t>(timeout_ms));
  const bool made = outcome == RONDO_OK;
  if (made && replayed) outcome = capture_sum(self, count, graph);
  for (int round = 1; round <= round_count && outcome == RONDO_OK; ++round) {
    if (round == death_round && self.rank == 1 && scenario.ends_with("kill")) ::raise(SIGKILL);
    if (round == death_round && self.rank == 1 && scenario == "silent")
      std::this_thread::sleep_for(std::chrono::seconds(12));
    const bool by_graph = replayed && round % 2 == death_round % 2;
    outcome = scenario == "moves"                  ? move_once(self, round)
              : scenario.starts_with("messages") ? message_once(self, round)
                                                   : sum_once(self, round, count, by_graph ? &graph : nullptr);
  }
  if (outcome == RONDO_OK) outcome = rondo_comm_finalize(self.comm);
  report(self, outcome);
  if (made) static_cast<void>(rondo_comm_destroy(self.comm));
  return outcome == RONDO_OK ? 0 : 1;
}
