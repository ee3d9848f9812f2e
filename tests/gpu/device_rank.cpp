// SPDX-License-Identifier: Apache-2.0
// One rank of a job on a device, for device_process_test.py: `device_rank SCENARIO [replayed]`. It checks every result,
// and prints one line with its status. With `replayed`, every other sum is a replay of a graph.
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/gpu/device_process.h"
#include "tests/sanitized.h"
#include "tests/soft_cuda/soft_cuda.h"

using namespace rondo_test;

namespace {

constexpr size_t count_default = 100'003;
constexpr int round_count = 6, death_round = 3;

constexpr auto look_interval = std::chrono::milliseconds(5);
constexpr int looks_max = 20'000;  // a limit for a test that hangs

/// Makes no call, and waits until the communicator has failed.
void wait_silently(const DeviceProcess &self) {
  rondo_status_t state = RONDO_OK;
  for (int look = 0; look < looks_max && state == RONDO_OK; ++look) {
    std::this_thread::sleep_for(look_interval);
    static_cast<void>(rondo_comm_get_async_error(self.comm, &state));
  }
}

/// Returns a number of the environment. DEVICE_RANK_COUNT: elements. DEVICE_RANK_TIMEOUT: milliseconds.
/// DEVICE_RANK_DEVICES=n: rank r is on device r modulo n. DEVICE_RANK_SLOW_SENDS: see send().
size_t number_of_environment(const char *name, size_t otherwise) {
  const char *const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// Gathers one part from each rank. Then a broadcast replaces the first part by the part of rank 1.
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

/// Sends one half of the buffer to the next rank, and receives the other half from the previous rank. If `grouped`,
/// both calls are in a group. `short_by` is the number of elements that rank 0 does not send.
int message_once(const DeviceProcess &self, int round, size_t short_by, bool grouped) {
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
  if (const auto begun = grouped ? rondo_group_begin() : RONDO_OK; begun != RONDO_OK) return begun;
  const size_t sent = self.rank == 0 ? half - short_by : half;
  static_cast<void>(rondo_send(pointer, sent, RONDO_INT32, next, self.comm, stream));
  static_cast<void>(rondo_recv(pointer + half, half, RONDO_INT32, previous, self.comm, stream));
  if (const auto ended = grouped ? rondo_group_end() : RONDO_OK; ended != RONDO_OK) return ended;
  if (const int outcome = copy_back(self, values.data(), bytes); outcome != RONDO_OK) return outcome;
  for (size_t i = 0; i < half; ++i)
    if (values[half + i] != value(previous, i)) return wrong_value;
  return RONDO_OK;
}

/// Both ranks exchange messages. Then rank 1 sends one and is killed, and rank 0 receives it and waits for another one.
int say_last_words(const DeviceProcess &self) {
  constexpr size_t count = 1'000;
  if (const int exchanged = message_once(self, 0, 0, true); exchanged != RONDO_OK) return exchanged;
  using rondo::cuda::CuStatus;
  std::vector<int32_t> values(count);
  for (size_t i = 0; i < count && self.rank == 1; ++i) values[i] = static_cast<int32_t>(i);
  const rondo::cuda::ContextGuard guard(*self.cu, self.context.get().context);
  auto *const stream = self.stream.get().object;
  const rondo::cuda::DevicePointer at = self.buffer.get().object;
  const size_t bytes = count * sizeof(int32_t);
  if (self.cu->memcpy_htod_async(at, values.data(), bytes, stream) != CuStatus::success) return driver_failed;
  auto *const pointer = reinterpret_cast<int32_t *>(at);
  if (self.rank == 1) {
    if (const auto sent = rondo_send(pointer, count, RONDO_INT32, 0, self.comm, stream); sent != RONDO_OK) return sent;
    if (self.cu->stream_synchronize(stream) != CuStatus::success) return driver_failed;
    std::this_thread::sleep_for(std::chrono::seconds(5));  // meanwhile the network takes the message
    ::raise(SIGKILL);
  }
  std::this_thread::sleep_for(std::chrono::seconds(8));
  if (const auto got = rondo_recv(pointer, count, RONDO_INT32, 1, self.comm, stream); got != RONDO_OK) return got;
  // This does not use copy_back(), which would ask for errors first, and report the death of rank 1.
  if (self.cu->memcpy_dtoh_async(values.data(), at, bytes, stream) != CuStatus::success ||
      self.cu->stream_synchronize(stream) != CuStatus::success)
    return driver_failed;
  for (size_t i = 0; i < count; ++i)
    if (values[i] != static_cast<int32_t>(i)) return wrong_value;
  std::printf("received\n");
  if (const auto more = rondo_recv(pointer, count, RONDO_INT32, 1, self.comm, stream); more != RONDO_OK) return more;
  return copy_back(self, values.data(), bytes);
}

/// Returns how many ranges of device memory this process maps. With a real driver it is 0.
uint64_t mapping_count(const DeviceProcess &self) {
  auto *const ask = soft_cuda_function<void(SoftCudaLive *)>(self.cu->library, "soft_cuda_live");
  SoftCudaLive live;
  if (ask != nullptr) ask(&live);
  return live.mappings;
}

/// A window over memory that other processes map. The memory ends with the process.
struct ProcessWindow {
  rondo_status_t open(const DeviceProcess &self) {
    if (window != nullptr) return RONDO_OK;
    bytes = self.count * sizeof(int32_t);
    if (const auto made = rondo_device_mem_alloc(&memory, bytes, self.device); made != RONDO_OK) return made;
    own_mappings = mapping_count(self);
    return rondo_window_register(self.comm, memory, bytes, RONDO_WINDOW_SYMMETRIC, &window);
  }
  /// Ends the window right after a put, and checks that this process maps no memory of peers any more.
  int close(const DeviceProcess &self) const {
    auto *const stream = self.stream.get().object;
    const auto *const from = reinterpret_cast<const void *>(self.buffer.get().object);
    const auto put = rondo_put_signal(from, bytes, (self.rank + 1) % self.size, window, 0, 2, self.comm, stream);
    if (put != RONDO_OK) return put;
    if (self.cu->stream_synchronize(stream) != rondo::cuda::CuStatus::success) return driver_failed;
    if (const auto ended = rondo_window_deregister(self.comm, window); ended != RONDO_OK) return ended;
    return mapping_count(self) == own_mappings ? RONDO_OK : wrong_value;
  }
  void *memory = nullptr;
  size_t bytes = 0;
  uint64_t own_mappings = 0;  ///< the count before the window exists
  rondo_window_t window = nullptr;
};

/// Puts the buffer into the window of the next rank, and waits for the values of the previous rank.
int put_once(const DeviceProcess &self, int round, ProcessWindow &of) {
  using rondo::cuda::CuStatus;
  const rondo::cuda::ContextGuard guard(*self.cu, self.context.get().context);
  if (const auto opened = of.open(self); opened != RONDO_OK) return opened;
  const auto value = [&](int rank, size_t i) { return static_cast<int32_t>(i % 1000) + 1000 * rank + 7 * round; };
  std::vector<int32_t> values(self.count);
  for (size_t i = 0; i < self.count; ++i) values[i] = value(self.rank, i);
  auto *const stream = self.stream.get().object;
  const rondo::cuda::DevicePointer at = self.buffer.get().object;
  if (self.cu->memcpy_htod_async(at, values.data(), of.bytes, stream) != CuStatus::success) return driver_failed;
  const int next = (self.rank + 1) % self.size, previous = (self.rank + self.size - 1) % self.size;
  const auto put = rondo_put_signal(reinterpret_cast<void *>(at), of.bytes, next, of.window, 0, 0, self.comm, stream);
  if (put != RONDO_OK) return put;
  if (const auto wait = rondo_wait_signal(previous, 0, 1, self.comm, stream); wait != RONDO_OK) return wait;
  const auto from = reinterpret_cast<rondo::cuda::DevicePointer>(of.memory);
  if (self.cu->memcpy_dtod_async(at, from, of.bytes, stream) != CuStatus::success) return driver_failed;
  if (const int outcome = copy_back(self, values.data(), of.bytes); outcome != RONDO_OK) return outcome;
  for (size_t i = 0; i < self.count; ++i)
    if (values[i] != value(previous, i)) return wrong_value;
  // This signal allows the previous rank to write again.
  if (const auto read = rondo_signal(previous, 1, self.comm, stream); read != RONDO_OK) return read;
  return rondo_wait_signal(next, 1, 1, self.comm, stream);
}

constexpr size_t block_stride = 9'001;  ///< elements between the blocks of two ranks

/// Exchanges blocks of uneven sizes with all ranks, then equal blocks in place. `short_by` is the number of elements
/// that rank 0 does not send to rank 1.
int exchange_blocks(const DeviceProcess &self, int round, size_t short_by) {
  using rondo::cuda::CuStatus;
  const auto size = static_cast<size_t>(self.size), own = static_cast<size_t>(self.rank);
  const auto count_of = [&](size_t from, size_t to) {
    return 1 + (3 * from + 5 * to + static_cast<size_t>(round)) % 4 * 3'000;
  };
  const auto value = [&](size_t from, size_t to, size_t i) {
    return static_cast<int32_t>(100'000 * from + 10'000 * to + i % 1'000) + round;
  };
  std::vector<size_t> to, from, displacements;
  std::vector<int32_t> values(2 * size * block_stride, -1);
  for (size_t peer = 0; peer < size; ++peer) {
    to.push_back(count_of(own, peer));
    from.push_back(count_of(peer, own));
    displacements.push_back(peer * block_stride);
    for (size_t i = 0; i < block_stride; ++i) values[peer * block_stride + i] = value(own, peer, i);
  }
  if (self.rank == 0) to[1] -= short_by;
  const size_t bytes = values.size() * sizeof(int32_t);
  const rondo::cuda::ContextGuard guard(*self.cu, self.context.get().context);
  auto *const stream = self.stream.get().object;
  if (self.cu->memcpy_htod_async(self.buffer.get().object, values.data(), bytes, stream) != CuStatus::success)
    return driver_failed;
  auto *const send = reinterpret_cast<int32_t *>(self.buffer.get().object);
  auto *const recv = send + size * block_stride;
  const auto uneven = rondo_all_to_all_v(send, to.data(), displacements.data(), recv, from.data(),
                                         displacements.data(), RONDO_INT32, self.comm, stream);
  if (uneven != RONDO_OK) return uneven;
  const auto even = rondo_all_to_all(send, send, block_stride, RONDO_INT32, self.comm, stream);
  if (even != RONDO_OK) return even;
  if (const int outcome = copy_back(self, values.data(), bytes); outcome != RONDO_OK) return outcome;
  for (size_t peer = 0; peer < size; ++peer)
    for (size_t i = 0; i < block_stride; ++i) {
      const int32_t wanted = value(peer, own, i);
      if (values[peer * block_stride + i] != wanted) return wrong_value;
      if (values[(size + peer) * block_stride + i] != (i < from[peer] ? wanted : -1)) return wrong_value;
    }
  return RONDO_OK;
}

}  // namespace

/// Replaces libc's send(). Waits DEVICE_RANK_SLOW_SENDS milliseconds first, except on the main thread of rank 0.
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
  const size_t silent_ms = sanitized() ? 25'000 : 6'000;  // all ranks that call are in time
  const size_t usual_ms = scenario.ends_with("silent") ? silent_ms : 20'000;
  const size_t timeout_ms = number_of_environment("DEVICE_RANK_TIMEOUT", usual_ms);
  DeviceProcess self;
  self.device = static_cast<int>(number_of_environment("RANK", 0) % number_of_environment("DEVICE_RANK_DEVICES", 1));
  rondo::cuda::GraphExec graph;
  ProcessWindow window;
  if (const auto ready = set_up(self, count); !ready.ok()) {
    std::fprintf(stderr, "%s\n", ready.error().message.c_str());
    return 2;
  }
  int outcome = join(self, static_cast<uint32_t>(timeout_ms));
  const bool made = outcome == RONDO_OK;
  if (made && replayed) outcome = capture_sum(self, count, graph);
  for (int round = 1; round <= round_count && outcome == RONDO_OK; ++round) {
    if (round == death_round && self.rank == 1 && scenario.ends_with("kill")) ::raise(SIGKILL);
    if (round == death_round && self.rank == 1 && scenario.ends_with("silent")) wait_silently(self);
    const bool by_graph = replayed && round % 2 == death_round % 2;
    outcome = scenario == "moves"                ? move_once(self, round)
              : scenario == "last_words"         ? say_last_words(self)
              : scenario.starts_with("windows")  ? put_once(self, round, window)
              : scenario.starts_with("blocks")   ? exchange_blocks(self, round, scenario == "blocks_differ" ? 1 : 0)
              : scenario.starts_with("messages") ? message_once(self, round, scenario == "messages_differ" ? 1 : 0,
                                                              scenario != "messages_cross")
                                                 : sum_once(self, round, count, by_graph ? &graph : nullptr);
  }
  if (outcome == RONDO_OK && scenario == "windows") outcome = window.close(self);
  if (outcome == RONDO_OK && scenario == "messages_lost" && self.rank == 0)
    outcome = rondo_send(reinterpret_cast<void *>(self.buffer.get().object), 1, RONDO_INT32, 1, self.comm,
                         self.stream.get().object);
  if (outcome == RONDO_OK) outcome = rondo_comm_finalize(self.comm);
  report(self, outcome);
  if (made) static_cast<void>(rondo_comm_destroy(self.comm));
  return outcome == RONDO_OK ? 0 : 1;
}
