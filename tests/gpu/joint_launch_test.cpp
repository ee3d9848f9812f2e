// SPDX-License-Identifier: Apache-2.0
// These tests check when one kernel of load_store runs all ranks that share a launch, and the graphs of this kernel.
// The results are checked by emulated_joint_test.cpp and by the device matrix of ranks that share launches.
#include <barrier>
#include <functional>
#include <latch>
#include <thread>

#include "tests/gpu/shared_group.h"
#include "tests/test_clock.h"

using namespace rondo_test;
using namespace rondo::cuda;

TEST_CASE("shared launch: every collective is by load_store at any size", "[plain][few queues]") {
  const Group group(3, 10);
  for (const auto collective :
       {RONDO_ALL_REDUCE, RONDO_REDUCE_SCATTER, RONDO_ALL_GATHER, RONDO_BROADCAST, RONDO_REDUCE})
    for (const size_t count : {size_t{2}, size_t{1} << 18}) {
      rondo_plan_info_t plan = RONDO_PLAN_INFO_INIT;
      REQUIRE(rondo_comm_query_plan(group.ranks.ranks[0], collective, count, RONDO_FLOAT32, &plan) == RONDO_OK);
      CAPTURE(rondo_collective_string(collective), count);
      CHECK(plan.kernel == RONDO_KERNEL_LOAD_STORE);
    }
}

TEST_CASE("shared launch: a call that all ranks capture into one graph is one kernel", "[plain][few queues]") {
  for (const rondo_kernel_t kernel : {RONDO_KERNEL_AUTO, RONDO_KERNEL_INTERPRETER}) {
    constexpr size_t count = 300;
    rondo_config_t config = by_kernels();
    config.kernel = kernel;
    Group group(3, count, config);
    group.sum_all();  // so that the plan's copy to the device is not in the graph
    const World &world = group.ranks.world;
    const auto stream_of = [&](int rank) { return static_cast<CuStream>(group.ranks.stream(rank)); };
    // Rank 0's stream has the graph. The other streams branch off from it, and join it again.
    const Event begun = world.event();
    std::vector<Event> ended;
    CU_OK(world.cu.stream_begin_capture(stream_of(0), CaptureMode::thread_local_));
    CU_OK(world.cu.event_record(begun.get().object, stream_of(0)));
    for (int rank = 1; rank < 3; ++rank) CU_OK(world.cu.stream_wait_event(stream_of(rank), begun.get().object, 0));
    const auto before = launch_count();
    for (int call = 0; call < 2; ++call) group.sum_all();
    if (before) CHECK(*launch_count() - *before == 2);
    for (int rank = 1; rank < 3; ++rank) {
      ended.push_back(world.event());
      CU_OK(world.cu.event_record(ended.back().get().object, stream_of(rank)));
      CU_OK(world.cu.stream_wait_event(stream_of(0), ended.back().get().object, 0));
    }
    const GraphExec graph = world.end_capture(stream_of(0));
    group.ranks.synchronize();
    for (int round = 0; round < 2; ++round) group.ranks.launch(graph, 0);
    group.ranks.synchronize();
    group.sum_all();
    std::vector<float> expected = sum_over_ranks(0, 3, count);
    for (float &value : expected) value *= 243;  // 5 more sums over 3 ranks: 3 to the power of 5
    group.check(expected);
  }
}

TEST_CASE("shared launch: load_store has kernels for as many ranks as one takes", "[plain]") {
  const Sharing sharing;
  rondo_config_t config = by_kernels();
  config.kernel = RONDO_KERNEL_LOAD_STORE;
  CHECK(Ranks(kernel_ranks, config).status() == RONDO_OK);
  CHECK(Ranks(kernel_ranks + 1, config).status() == RONDO_ERROR_UNSUPPORTED);
  check_message({"'load_store'", "up to 8", "RONDO_DEVICE_LAUNCH=own", "RONDO_KERNEL=interpreter"});
}

// A process reads RONDO_DEVICE_LAUNCH once, so the cases with "[auto]" need a process in which it is not set.
namespace {

/// Counts kernels of ranks that share launches without a request, because CUDA has few hardware queues.
struct Unasked {
  Setting few_queues{"CUDA_DEVICE_MAX_CONNECTIONS", "8"};
  Group group;
  uint64_t sums = 0;

  explicit Unasked(int rank_count) : group(rank_count, 300, by_kernels(), "auto") {}
  [[nodiscard]] uint64_t launched(const std::function<void()> &sum_all) {
    const auto before = launch_count();
    sum_all();
    ++sums;
    return before ? *launch_count() - *before : 0;
  }
  /// Counts kernels if each rank calls on its own thread. Threads live until all have called, so their ids differ.
  [[nodiscard]] uint64_t by_threads() {
    std::barrier all_called(group.ranks.ranks.size());
    const auto sum = [&](int rank, rondo_comm_t) {
      const rondo_status_t status = group.sum(rank);
      all_called.arrive_and_wait();
      return status;
    };
    return launched([&] { REQUIRE(all_ok(group.ranks.ranks.run(sum))); });
  }
  /// Returns whether one kernel runs all ranks' calls if each rank has a thread. The held clock keeps threads in time.
  [[nodiscard]] bool share() {
    const HeldClock clock;
    for (int turn = 0; turn < 3; ++turn)
      if (by_threads() != 1) return false;
    return true;
  }
  [[nodiscard]] uint64_t by_one_thread() {
    return launched([&] {
      for (int rank = 0; rank < group.ranks.ranks.size(); ++rank) REQUIRE(group.sum(rank) == RONDO_OK);
    });
  }
  void check() const {
    const int rank_count = group.ranks.ranks.size();
    std::vector<float> expected = sum_over_ranks(0, rank_count, group.count);
    for (uint64_t sum = 1; sum < sums; ++sum)
      for (float &value : expected) value *= static_cast<float>(rank_count);
    group.check(expected);
  }
};

}  // namespace

TEST_CASE("shared launch: with few hardware queues ranks share a launch by themselves if each has a thread",
          "[auto]") {
  if (!in_software()) return;  // only the driver in software counts kernels
  for (const int rank_count : {2, 3}) {
    Unasked ranks(rank_count);
    CHECK(ranks.share());
    ranks.check();
  }
}

TEST_CASE("shared launch: one thread that drives ranks gets on with a kernel of each, their own threads share again",
          "[auto]") {
  if (!in_software()) return;
  Unasked ranks(3);
  for (int round = 0; round < 2; ++round) {
    for (int call = 0; call < 2; ++call) CHECK(ranks.by_one_thread() == 3);
    CHECK(ranks.by_threads() == 3);  // in this first round, Rondo sees that ranks have threads
    CHECK(ranks.share());
  }
  ranks.check();
}

TEST_CASE("shared launch: a rank that comes late has a kernel of its own, as all have of that call", "[auto]") {
  if (!in_software()) return;
  Unasked ranks(3);
  CHECK(ranks.share());
  const uint64_t launched = ranks.launched([&] {
    std::latch others_returned(2);
    const auto late = [&](int rank, rondo_comm_t) {
      if (rank == 1) others_returned.wait();
      const rondo_status_t status = ranks.group.sum(rank);
      if (rank != 1) others_returned.count_down();
      return status;
    };
    REQUIRE(all_ok(ranks.group.ranks.ranks.run(late)));
  });
  CHECK(launched == 3);
  CHECK(ranks.by_threads() == 3);  // in this first round, Rondo sees that ranks have threads
  CHECK(ranks.share());
  ranks.check();
}

TEST_CASE("shared launch: with a queue for each stream, or more ranks than a kernel takes, each has its own kernel",
          "[auto]") {
  if (!in_software()) return;
  const Setting queues("CUDA_DEVICE_MAX_CONNECTIONS", "32");
  Group with_queues(2, 10, by_kernels(), "auto");
  const auto before = launch_count();
  with_queues.sum_all();
  CHECK(*launch_count() - *before == 2);
  Unasked many(kernel_ranks + 1);
  CHECK(many.by_threads() == kernel_ranks + 1);
  many.check();
}

TEST_CASE("shared launch: unasked, calls are captured by one thread for all ranks", "[auto]") {
  constexpr size_t count = 300;
  const Setting few_queues("CUDA_DEVICE_MAX_CONNECTIONS", "8");
  Group group(3, count, by_kernels(), "auto");
  std::vector<GraphExec> graphs;
  for (int rank = 0; rank < 3; ++rank)
    graphs.push_back(
        captured(group.ranks.world, group.ranks.stream(rank), [&] { REQUIRE(group.sum(rank) == RONDO_OK); }));
  for (int rank = 0; rank < 3; ++rank) group.ranks.launch(graphs[static_cast<size_t>(rank)], rank);
  group.check_sums();
}
