// SPDX-License-Identifier: Apache-2.0
// These tests make groups whose calls are on several streams of a device. The group must wait for what each stream has,
// and later work on each stream must wait for the group.
#include <optional>
#include <thread>

#include "tests/gpu/device_failures.h"
#include "tests/gpu/device_ranks.h"

using namespace rondo_test;
using rondo::cuda::CuStatus;
using rondo::cuda::CuStream;
using rondo::cuda::conformance::a_while;
using rondo::cuda::conformance::Gate;

namespace {

constexpr size_t count = 5'000;

/// Two ranks that exchange values and add others. Each rank has two streams.
struct TwoStreams {
  explicit TwoStreams(bool uses_default_stream) : group(2, on_executor()), by_default(uses_default_stream) {
    for (int rank = 0; rank < 2; ++rank) {
      group.streams.push_back(group.world.another_stream());
      for (std::vector<DeviceBuffer> *all : {&values, &sent, &received, &sums, &copies})
        all->emplace_back(group.world, bytes_of(std::vector<float>(count, -1)));
    }
  }

  [[nodiscard]] CuStream first(int rank) const {
    return by_default && rank == 0 ? nullptr : static_cast<CuStream>(group.stream(rank));
  }
  [[nodiscard]] CuStream second(int rank) const { return static_cast<CuStream>(group.stream(2 + rank)); }
  static float *at(const std::vector<DeviceBuffer> &buffers, int rank) {
    return static_cast<float *>(buffers[static_cast<size_t>(rank)].pointer());
  }
  void copy(const std::vector<DeviceBuffer> &to, const std::vector<DeviceBuffer> &from, int rank) const {
    const auto address = [&](const auto &of) { return reinterpret_cast<rondo::cuda::DevicePointer>(at(of, rank)); };
    CU_OK(group.world.cu.memcpy_async(address(to), address(from), count * sizeof(float), second(rank)));
  }
  void fill(uint64_t seed) {
    for (size_t rank = 0; rank < 2; ++rank) {
      values[rank].write(bytes_of(whole_numbers(seed + rank, count)));
      sums[rank].write(bytes_of(whole_numbers(seed + rank, count)));
    }
  }
  /// Makes the group of a rank. The second stream writes what the group sends, and then reads what it receives.
  rondo_status_t call(int rank, rondo_comm_t comm) const {
    copy(sent, values, rank);
    static_cast<void>(rondo_group_begin());
    static_cast<void>(rondo_recv(at(received, rank), count, RONDO_FLOAT32, 1 - rank, comm, first(rank)));
    static_cast<void>(rondo_send(at(sent, rank), count, RONDO_FLOAT32, 1 - rank, comm, second(rank)));
    static_cast<void>(
        rondo_all_reduce(at(sums, rank), at(sums, rank), count, RONDO_FLOAT32, RONDO_SUM, comm, second(rank)));
    const rondo_status_t ended = rondo_group_end();
    copy(copies, received, rank);
    return ended;
  }
  /// Waits for the second streams alone, and checks what they have.
  void check(uint64_t seed) const {
    for (int rank = 0; rank < 2; ++rank) CU_OK(group.world.cu.stream_synchronize(second(rank)));
    group.complete();
    for (size_t rank = 0; rank < 2; ++rank) {
      CHECK_VALUES(copies[rank].read(), whole_numbers(seed + 1 - rank, count));
      CHECK_VALUES(sums[rank].read(), sum_over_ranks(seed, 2, count));
    }
  }

  DeviceRanks group;
  const bool by_default;
  std::vector<DeviceBuffer> values, sent, received, sums, copies;
};

/// Makes later work on `behind` wait for the work that `before` has now. Both are captured afterwards if one is.
void join(const rondo::cuda::conformance::World &world, CuStream before, CuStream behind) {
  const auto event = world.event();
  CU_OK(world.cu.event_record(event.get().object, before));
  CU_OK(world.cu.stream_wait_event(behind, event.get().object, 0));
}

}  // namespace

TEST_CASE("device group streams: a group waits for all of its streams, and each of them waits for the group") {
  for (const bool uses_default_stream : {false, true}) {
    CAPTURE(uses_default_stream);
    TwoStreams two(uses_default_stream);
    const auto &world = two.group.world;
    for (const bool closes_first : {false, true}) {
      const uint64_t seed = closes_first ? 10 : 20;
      two.fill(seed);
      Gate gate(world);
      for (int rank = 0; rank < 2; ++rank) gate.close(closes_first ? two.first(rank) : two.second(rank));
      CHECK(all_ok(call_each(two.group.ranks, [&](int rank, rondo_comm_t comm) { return two.call(rank, comm); })));
      std::this_thread::sleep_for(a_while);
      for (int rank = 0; rank < 2; ++rank)
        CHECK(world.cu.stream_query(closes_first ? two.second(rank) : two.first(rank)) == CuStatus::not_ready);
      gate.open();
      two.check(seed);
      CU_OK(world.cu.stream_synchronize(nullptr));
    }
    CHECK(all_ok(two.group.ranks.run([](int, rondo_comm_t comm) { return rondo_comm_finalize(comm); })));
  }
}

TEST_CASE("device group streams: streams that one graph captures are joined in the graph") {
  TwoStreams two(false);
  const auto &world = two.group.world;
  std::vector<rondo::cuda::GraphExec> graphs;
  for (int rank = 0; rank < 2; ++rank)
    graphs.push_back(captured(world, two.first(rank), [&] {
      join(world, two.first(rank), two.second(rank));
      CHECK(two.call(rank, two.group.ranks[rank]) == RONDO_OK);
      join(world, two.second(rank), two.first(rank));
    }));
  for (const uint64_t seed : {10u, 20u, 30u}) {
    two.fill(seed);
    for (int rank = 0; rank < 2; ++rank) two.group.launch(graphs[static_cast<size_t>(rank)], rank);
    two.group.complete();
    two.check(seed);
  }
}

TEST_CASE("device group streams: streams in two captures are refused, and both captures go on") {
  TwoStreams two(false);
  two.fill(10);
  const auto &world = two.group.world;
  for (CuStream stream : {two.first(0), two.second(0)})
    CU_OK(world.cu.stream_begin_capture(stream, rondo::cuda::CaptureMode::relaxed));
  CHECK(two.call(0, two.group.ranks[0]) == RONDO_ERROR_INVALID_USAGE);
  check_message({"on two streams that are not captured by the same graph"});
  for (CuStream stream : {two.first(0), two.second(0)}) static_cast<void>(world.end_capture(stream));
  CHECK(all_ok(call_each(two.group.ranks, [&](int rank, rondo_comm_t comm) { return two.call(rank, comm); })));
  two.check(10);
}

TEST_CASE("device group streams: a captured stream and one that is not are refused, and nothing is enqueued") {
  TwoStreams two(false);
  two.fill(10);
  const auto graph = captured(two.group.world, two.first(0), [&] {
    CHECK(two.call(0, two.group.ranks[0]) == RONDO_ERROR_INVALID_USAGE);
    check_message({"on two streams that are not captured by the same graph", "capture both into one graph"});
  });
  two.group.synchronize();
  CHECK(all_ok(call_each(two.group.ranks, [&](int rank, rondo_comm_t comm) { return two.call(rank, comm); })));
  two.check(10);
}

TEST_CASE("device group streams: each stream waits for what a group enqueued before it failed", "[.][launch fault]") {
  TwoStreams two(false);
  Gate gate(two.group.world);
  gate.close(two.first(0));
  // SOFT_CUDA_FAULTS refuses the second kernel, which is that of the messages.
  CHECK(two.call(0, two.group.ranks[0]) != RONDO_OK);
  check_message({"messages could not be enqueued"});
  std::this_thread::sleep_for(a_while);
  CHECK(two.group.world.cu.stream_query(two.second(0)) == CuStatus::not_ready);
  gate.open();
  two.group.synchronize();
}
