// SPDX-License-Identifier: Apache-2.0
// These tests run one-sided operations on device memory, with several streams, captures, and blocked streams. Ranks are
// threads, and the driver is the one in software.
#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "src/engine/device_executor.h"
#include "tests/gpu/device_failures.h"
#include "tests/gpu/device_ranks.h"

using namespace rondo_test;

namespace {

using rondo::cuda::CuStatus;
using rondo::cuda::CuStream;
using rondo::cuda::conformance::a_while;
using rondo::cuda::conformance::Gate;

constexpr size_t count = 1000;
constexpr size_t window_bytes = count * sizeof(float);

CuStream driver_stream(rondo_stream_t stream) { return static_cast<CuStream>(stream); }

rondo_config_t with_timeout(uint32_t timeout_ms) {
  rondo_config_t config = on_device();
  config.timeout_ms = timeout_ms;
  return config;
}

/// Makes the first call of each rank, while nothing is in flight.
void open_all(const DeviceRanks &group) {
  for (int rank = 0; rank < group.ranks.size(); ++rank)
    CHECK(rondo_signal(rank, RONDO_SIGNAL_COUNT - 1, group.ranks[rank], group.stream(rank)) == RONDO_OK);
  group.complete();
}

/// Ranks with a window of `count` float32, of value -1, and a source of the same size.
struct WindowRanks {
  explicit WindowRanks(const std::vector<rondo_config_t> &configs) : group(configs) {
    for (int rank = 0; rank < group.ranks.size(); ++rank) {
      own.emplace_back(group.world_of(rank), bytes_of(std::vector<float>(count, -1)));
      sources.emplace_back(group.world_of(rank), bytes_of(whole_numbers(static_cast<uint64_t>(rank), count)));
    }
    windows.resize(configs.size());
    statuses = group.ranks.run([&](int rank, rondo_comm_t comm) {
      const auto at = static_cast<size_t>(rank);
      const auto made = rondo_window_register(comm, own[at].pointer(), window_bytes, 0, &windows[at]);
      if (made != RONDO_OK && rank == 0) message = error_message();
      return made;
    });
  }
  [[nodiscard]] rondo_status_t put(int from, int to, rondo_stream_t stream) const {
    const auto at = static_cast<size_t>(from);
    return rondo_put_signal(sources[at].pointer(), window_bytes, to, windows[at], 0, 0, group.ranks[from], stream);
  }

  DeviceRanks group;
  std::vector<DeviceBuffer> own, sources;
  std::vector<rondo_window_t> windows;
  std::vector<rondo_status_t> statuses;
  std::string message;  ///< error message of rank 0
};

}  // namespace

TEST_CASE("window streams: a put on another stream follows the earlier put to that peer") {
  WindowRanks ranks({on_device(), on_device()});
  REQUIRE(all_ok(ranks.statuses));
  const auto &world = ranks.group.world;
  const auto busy = world.another_stream();
  const auto received = world.pinned(window_bytes);
  const CuStream receiver = driver_stream(ranks.group.stream(1));
  Gate gate(world);
  gate.close(busy.get().object);
  CHECK(ranks.put(0, 1, busy.get().object) == RONDO_OK);
  CHECK(rondo_signal(1, 0, ranks.group.ranks[0], ranks.group.stream(0)) == RONDO_OK);
  CHECK(rondo_wait_signal(0, 0, 2, ranks.group.ranks[1], receiver) == RONDO_OK);
  CU_OK(world.cu.memcpy_dtoh_async(received.get().object, reinterpret_cast<uint64_t>(ranks.own[1].pointer()),
                                   window_bytes, receiver));
  std::this_thread::sleep_for(a_while);  // by now, a wait that ends too early has ended
  gate.open();
  CU_OK(world.cu.stream_synchronize(receiver));
  const auto *const values = static_cast<const float *>(received.get().object);
  CHECK_VALUES(std::vector<float>(values, values + count), whole_numbers(0, count));
  // The signal count has not decreased.
  CU_OK(world.cu.stream_synchronize(busy.get().object));
  CHECK(rondo_signal(1, 0, ranks.group.ranks[0], busy.get().object) == RONDO_OK);
  CHECK(rondo_wait_signal(0, 0, 1, ranks.group.ranks[1], receiver) == RONDO_OK);
  CU_OK(world.cu.stream_synchronize(busy.get().object));
  ranks.group.complete();
}

TEST_CASE("window streams: a signal does not wait for this rank's wait on another stream, or for another peer") {
  DeviceRanks group(3);
  open_all(group);
  const auto other = group.world.another_stream();
  const rondo_stream_t second = other.get().object;
  CHECK(rondo_wait_signal(1, 0, 1, group.ranks[0], group.stream(0)) == RONDO_OK);
  CHECK(rondo_signal(2, 0, group.ranks[0], group.stream(0)) == RONDO_OK);
  CHECK(rondo_signal(1, 0, group.ranks[0], second) == RONDO_OK);
  CU_OK(group.world.cu.stream_synchronize(other.get().object));
  CHECK(rondo_wait_signal(0, 0, 1, group.ranks[1], group.stream(1)) == RONDO_OK);
  CHECK(rondo_signal(0, 0, group.ranks[1], group.stream(1)) == RONDO_OK);
  CHECK(rondo_wait_signal(0, 0, 1, group.ranks[2], group.stream(2)) == RONDO_OK);
  group.complete();
}

TEST_CASE("window streams: nothing is enqueued while the process opens memory of peers") {
  DeviceRanks group(1, with_timeout(300));
  open_all(group);
  CHECK(rondo_comm_flush(group.ranks[0]) == RONDO_OK);
  const auto quiet = rondo::Launches::of_process().try_quiet();
  REQUIRE(quiet.owns_lock());
  auto later = std::async(std::launch::async, [&] {
    const auto status = rondo_signal(0, 0, group.ranks[0], group.stream(0));
    return std::pair(status, error_message());
  });
  const auto [status, message] = later.get();
  CAPTURE(message);
  CHECK(status == RONDO_ERROR_TIMEOUT);
  CHECK(message.find("while its process opened or closed memory") != std::string::npos);
}

TEST_CASE("window streams: a flush ends at the deadline if a stream is held up, and the error names peer and stream") {
  DeviceRanks group(2, with_timeout(300));
  open_all(group);
  Gate gate(group.world);
  gate.close(driver_stream(group.stream(0)));
  CHECK(rondo_signal(1, 0, group.ranks[0], group.stream(0)) == RONDO_OK);
  CHECK(rondo_comm_flush(group.ranks[0]) == RONDO_ERROR_TIMEOUT);
  char stream[32];
  std::snprintf(stream, sizeof stream, "%p", group.stream(0));
  check_message({"rank 0 has enqueued a signal to rank 1 on stream " + std::string(stream)});
  CHECK(failure_of(group.ranks[0]).peer == 1);
  gate.open();
}

TEST_CASE("window streams: the first calls and the end of a window leave the capture of another stream alone") {
  WindowRanks ranks({on_device()});
  REQUIRE(all_ok(ranks.statuses));
  DeviceRanks group(1);
  const auto &world = group.world;
  const auto apart = world.another_stream();
  CU_OK(world.cu.stream_begin_capture(apart.get().object, rondo::cuda::CaptureMode::global));
  rondo_window_t window = nullptr;
  CHECK(rondo_window_register(group.ranks[0], ranks.own[0].pointer(), 8, 0, &window) == RONDO_OK);
  CHECK(rondo_signal(0, 0, group.ranks[0], group.stream(0)) == RONDO_OK);
  CHECK(rondo_window_deregister(group.ranks[0], window) == RONDO_OK);
  CHECK(rondo_comm_flush(group.ranks[0]) == RONDO_OK);
  rondo::cuda::CuGraph graph = nullptr;
  CU_OK(world.cu.stream_end_capture(apart.get().object, &graph));
  const rondo::cuda::Graph thrown_away({&world.cu, world.handle(), graph});
}

TEST_CASE("window streams: when all places of operations are taken, a call waits until the timeout") {
  constexpr size_t stream_count = 4, each_count = 128;  // together 512 operations, which take all places
  DeviceRanks group(1, with_timeout(300));
  open_all(group);
  CHECK(rondo_comm_flush(group.ranks[0]) == RONDO_OK);
  Gate gate(group.world);
  std::vector<rondo::cuda::Stream> streams;
  bool ok = true;
  for (size_t index = 0; index < stream_count; ++index) {
    streams.push_back(group.world.another_stream());
    if (index == 0) gate.close(streams[0].get().object);
    for (size_t each = 0; each < each_count; ++each)
      ok = ok && rondo_signal(0, 0, group.ranks[0], streams.back().get().object) == RONDO_OK;
  }
  CHECK(ok);
  CHECK(rondo_signal(0, 0, group.ranks[0], streams[0].get().object) == RONDO_ERROR_TIMEOUT);
  check_message({"512 one-sided operations are enqueued"});
  gate.open();
  for (const auto &stream : streams) CU_OK(group.world.cu.stream_synchronize(stream.get().object));
}

TEST_CASE("window streams: after an error of a copy, the operation ends when its stream has reached it",
          "[.][copy fault]") {
  WindowRanks ranks({on_device()});
  REQUIRE(all_ok(ranks.statuses));
  Gate gate(ranks.group.world);
  gate.close(driver_stream(ranks.group.stream(0)));
  const auto is_quiet = [] { return rondo::Launches::of_process().try_quiet().owns_lock(); };
  CHECK(is_quiet());
  CHECK(ranks.put(0, 0, ranks.group.stream(0)) != RONDO_OK);
  check_message({"a one-sided operation could not be enqueued: cuMemcpyAsync"});
  CHECK_FALSE(is_quiet());
  gate.open();
  ranks.group.synchronize();
  CHECK(is_quiet());
}

TEST_CASE("window streams: ranks on two devices write to each other, or are told that the devices have no access") {
  if (!has_two_devices("windows between devices")) return;
  WindowRanks ranks({on_device(0), on_device(1)});
  int reaches = 0;
  CU_OK(ranks.group.world.cu.device_can_access_peer(&reaches, 0, 1));
  if (reaches == 0) {
    CHECK(ranks.statuses == std::vector(2, RONDO_ERROR_UNSUPPORTED));
    CAPTURE(ranks.message);
    CHECK(ranks.message.find("CUDA device 0 has no peer access to the memory of CUDA device 1") != std::string::npos);
    return;
  }
  REQUIRE(all_ok(ranks.statuses));
  CHECK(ranks.put(0, 1, ranks.group.stream(0)) == RONDO_OK);
  CHECK(rondo_wait_signal(0, 0, 1, ranks.group.ranks[1], ranks.group.stream(1)) == RONDO_OK);
  ranks.group.complete();
  CHECK_VALUES(ranks.own[1].read(), whole_numbers(0, count));
}
