// SPDX-License-Identifier: Apache-2.0
// These tests run one kernel for all ranks that are threads of a process on one device (RONDO_DEVICE_LAUNCH=shared).
// They cover the results, the number of kernels, their order with other work, and calls that not all ranks make. The
// tag "[queue]" needs one hardware queue for all streams, and "[serial]" needs kernels that run one by one. In both
// cases, ranks with a kernel each would wait for ever (hazard_test.cpp). The tag "[few queues]" needs fewer queues than
// ranks. There one kernel has all ranks, and nothing is captured.
#include <atomic>
#include <thread>

#include "cuda/driver/budget.h"
#include "cuda/executors/connection_shape.h"
#include "tests/gpu/shared_group.h"
#include "tests/test_clock.h"

using namespace rondo_test;
using namespace rondo::cuda;
using rondo::cuda::conformance::a_while;
using rondo::cuda::conformance::becomes_true;
using rondo::cuda::conformance::Gate;

namespace {

/// Makes a call of each rank except `missing`, on a thread for each. join() waits until all calls have ended.
class Callers {
 public:
  Callers(const Group &group, int missing) : statuses_(static_cast<size_t>(group.ranks.ranks.size()), RONDO_OK) {
    for (int rank = 0; rank < group.ranks.ranks.size(); ++rank)
      if (rank != missing)
        threads_.emplace_back([this, &group, rank] {
          statuses_[static_cast<size_t>(rank)] = group.sum(rank);
          returned_.fetch_add(1);
        });
  }
  ~Callers() { join(); }
  Callers(const Callers &) = delete;
  Callers &operator=(const Callers &) = delete;

  [[nodiscard]] int returned() const { return returned_.load(); }
  const std::vector<rondo_status_t> &join() {
    for (std::thread &thread : threads_)
      if (thread.joinable()) thread.join();
    return statuses_;
  }

 private:
  std::vector<rondo_status_t> statuses_;
  std::vector<std::thread> threads_;
  std::atomic<int> returned_ = 0;
};

void check_kernel_count(int rank_count, uint64_t kernel_count) {
  CAPTURE(rank_count);
  Group group(rank_count, 5003);
  const auto before = launch_count();
  group.sum_all();
  group.check_sums();
  if (before) CHECK(*launch_count() - *before == kernel_count);
}

}  // namespace

TEST_CASE("shared launch: a call of all ranks is one kernel", "[plain][few queues]") {
  for (const int rank_count : {1, 2, 3, kernel_ranks}) check_kernel_count(rank_count, 1);
}

TEST_CASE("shared launch: of more ranks than a kernel takes there are two", "[plain]") {
  for (const int rank_count : {kernel_ranks + 1, kernel_ranks + 3}) check_kernel_count(rank_count, 2);
}

TEST_CASE("shared launch: every collective, calls among calls, in the order of each rank's stream",
          "[plain][few queues][queue][serial]") {
  constexpr size_t count = 700;
  Group group(4, 4 * count);
  const auto all_of_them = [&](int rank, rondo_comm_t comm) {
    auto *const data = static_cast<float *>(group.pointer(rank));
    const rondo_stream_t stream = group.ranks.stream(rank);
    const auto own = static_cast<size_t>(rank) * count;
    for (int round = 0; round < 5; ++round) {
      for (const rondo_status_t status :
           {rondo_all_reduce(data, data, 4 * count, RONDO_FLOAT32, RONDO_MAX, comm, stream),
            rondo_broadcast(data, data, count, RONDO_FLOAT32, round % 4, comm, stream),
            rondo_reduce(data, data, count, RONDO_FLOAT32, RONDO_MIN, round % 4, comm, stream),
            rondo_all_gather(data + own, data, count, RONDO_FLOAT32, comm, stream),
            rondo_reduce_scatter(data, data + own, count, RONDO_FLOAT32, RONDO_MAX, comm, stream),
            rondo_barrier(comm, stream)})
        if (status != RONDO_OK) return status;
    }
    return rondo_all_reduce(data, data, 4 * count, RONDO_FLOAT32, RONDO_SUM, comm, stream);
  };
  REQUIRE(all_ok(group.ranks.ranks.run(all_of_them)));
  // After the first all-reduce, all ranks have the same values.
  std::vector<float> expected = whole_numbers(0, 4 * count);
  for (uint64_t rank = 1; rank < 4; ++rank) {
    const auto other = whole_numbers(rank, 4 * count);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = std::max(expected[i], other[i]);
  }
  for (float &value : expected) value *= 4;
  group.check(expected);
}

TEST_CASE("shared launch: a large call has the device's multiprocessors divided by its ranks", "[plain][few queues]") {
  constexpr size_t count = (4 << 20) / sizeof(float) + 1;
  constexpr int ranks = 2;
  rondo_config_t config = by_kernels();
  config.max_ctas = 0;
  config.kernel = RONDO_KERNEL_INTERPRETER;
  Group group(ranks, count, config);
  rondo_plan_info_t plan = RONDO_PLAN_INFO_INIT;
  REQUIRE(rondo_comm_query_plan(group.ranks.ranks[0], RONDO_ALL_REDUCE, count, RONDO_FLOAT32, &plan) == RONDO_OK);
  const auto devices = cuda_devices(rondo::cuda::conformance::loaded_driver());
  REQUIRE(devices.ok());
  const auto share = static_cast<uint32_t>(devices.value()[0].multiprocessor_count / ranks);
  CHECK(plan.kernel == RONDO_KERNEL_INTERPRETER);
  CHECK(plan.channels == std::min(share, rondo::cuda::default_channels_max));
  CHECK(plan.channels > default_channel_count);
  group.sum_all();
  group.check_sums();
}

TEST_CASE("shared launch: the kernel comes behind what is on each rank's stream, and before what follows",
          "[plain][few queues]") {
  constexpr size_t count = 2000;
  for (const int closed : {0, 1, 2}) {  // the rank whose stream waits at the gate
    Group group(3, count);
    const World &world = group.ranks.world;
    std::vector<DeviceBuffer> results;
    for (int rank = 0; rank < 3; ++rank) results.emplace_back(world, bytes_of(std::vector<float>(count, -1)));
    const DeviceBuffer fresh(world, bytes_of(std::vector<float>(count, 7)));
    Gate gate(world);
    gate.close(static_cast<CuStream>(group.ranks.stream(closed)));
    const auto address = [](const DeviceBuffer &buffer) { return reinterpret_cast<DevicePointer>(buffer.pointer()); };
    const auto fill_and_sum = [&](int rank, rondo_comm_t) {
      auto *const stream = static_cast<CuStream>(group.ranks.stream(rank));
      const auto own = static_cast<size_t>(rank);
      const auto copy = [&](const DeviceBuffer &to, const DeviceBuffer &from) {
        static_cast<void>(world.cu.memcpy_async(address(to), address(from), count * sizeof(float), stream));
      };
      if (rank == closed) copy(group.buffers[own], fresh);  // after the gate, so a sum that begins too early is wrong
      const rondo_status_t status = group.sum(rank);
      copy(results[own], group.buffers[own]);
      return status;
    };
    REQUIRE(all_ok(group.ranks.ranks.run(fill_and_sum)));  // the calls return, and only their streams wait
    std::this_thread::sleep_for(a_while);
    for (int rank = 0; rank < 3; ++rank)
      CU_FAILS(world.cu.stream_query(static_cast<CuStream>(group.ranks.stream(rank))), CuStatus::not_ready);
    gate.open();
    group.ranks.complete();
    std::vector<float> expected(count, 7);
    for (int rank = 0; rank < 3; ++rank) {
      const auto values = whole_numbers(static_cast<uint64_t>(rank), count);
      for (size_t i = 0; rank != closed && i < count; ++i) expected[i] += values[i];
    }
    for (const DeviceBuffer &result : results) CHECK_VALUES(result.read(), expected);
  }
}

TEST_CASE("shared launch: a call that is captured into graphs of their own is each rank's own kernel, replayed among "
          "shared ones", "[plain]") {
  constexpr size_t count = 300;
  Group group(3, count);
  const World &world = group.ranks.world;
  const auto stream_of = [&](int rank) { return static_cast<CuStream>(group.ranks.stream(rank)); };
  std::vector<GraphExec> graphs;
  for (int rank = 0; rank < 3; ++rank) CU_OK(world.cu.stream_begin_capture(stream_of(rank), CaptureMode::relaxed));
  group.sum_all();
  for (int rank = 0; rank < 3; ++rank) graphs.push_back(world.end_capture(stream_of(rank)));
  std::vector<float> expected = sum_over_ranks(0, 3, count);
  group.sum_all();
  for (int round = 0; round < 3; ++round) {
    for (int rank = 0; rank < 3; ++rank) group.ranks.launch(graphs[static_cast<size_t>(rank)], rank);
    group.sum_all();
  }
  for (float &value : expected) value *= 729;  // 6 more sums over 3 ranks: 3 to the power of 6
  group.check(expected);
}

TEST_CASE("shared launch: an abort ends the calls that wait for a rank", "[plain][few queues]") {
  Group group(3, 1000);
  Callers callers(group, 2);
  std::this_thread::sleep_for(a_while);
  CHECK(callers.returned() == 0);
  REQUIRE(rondo_comm_abort(group.ranks.ranks[2]) == RONDO_OK);
  const auto &statuses = callers.join();
  CHECK(statuses[0] == RONDO_ERROR_ABORTED);
  CHECK(statuses[1] == RONDO_ERROR_ABORTED);
  CHECK(group.sum(2) == RONDO_ERROR_ABORTED);
}

TEST_CASE("shared launch: a rank that does not come is named when the time is over", "[plain][few queues]") {
  Group group(3, 1000, by_kernels(8'000));
  {
    const HeldClock clock;  // no time passes, so the first sum ends in time
    group.sum_all();
    group.ranks.complete();
  }
  Callers callers(group, 1);
  const auto &statuses = callers.join();
  for (const int rank : {0, 2}) {
    const rondo_error_t error = failure_of(group.ranks.ranks[rank]);
    CHECK(statuses[static_cast<size_t>(rank)] == RONDO_ERROR_TIMEOUT);
    CHECK(error.status == RONDO_ERROR_TIMEOUT);
    CHECK(error.peer == 1);
    CHECK(error.operation == 2);
  }
  CHECK(group.sum(1) != RONDO_OK);
}

TEST_CASE("shared launch: calls behind one that is stuck do not put off its end", "[plain]") {
  constexpr int absent = kernel_ranks;  // has a kernel of its own, and never calls
  Group group(kernel_ranks + 1, 500, by_kernels(8'000));
  {
    const HeldClock clock;  // so no rank is late at the first sum
    const auto begin = [&](int rank, rondo_comm_t) { return rank == absent ? RONDO_OK : group.sum(rank); };
    REQUIRE(all_ok(group.ranks.ranks.run(begin)));
  }
  const auto keep_calling = [&](int rank, rondo_comm_t) {
    rondo_status_t status = RONDO_OK;
    for (int round = 0; rank != absent && round < 200 && status == RONDO_OK; ++round) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50 + 2 * rank));  // these ranks wait for each other
      status = group.sum(rank);
    }
    return status;
  };
  const auto statuses = group.ranks.ranks.run(keep_calling);
  for (int rank = 0; rank < kernel_ranks; ++rank) {
    const rondo_error_t error = failure_of(group.ranks.ranks[rank]);
    CHECK(statuses[static_cast<size_t>(rank)] == RONDO_ERROR_TIMEOUT);
    CHECK(error.peer == absent);
    CHECK(error.operation == 1);
  }
}

TEST_CASE("shared launch: ranks that disagree launch kernels of their own and are told", "[plain]") {
  for (const bool other_kernel : {true, false}) {
    Group group(2, 5000);
    const auto disagree = [&](int rank, rondo_comm_t comm) {
      void *const data = group.pointer(rank);
      const rondo_stream_t stream = group.ranks.stream(rank);
      return rank == 1 && other_kernel
                 ? rondo_broadcast(data, data, 100, RONDO_FLOAT32, 0, comm, stream)
                 : rondo_all_reduce(data, data, rank == 0 ? 100 : 102, RONDO_FLOAT32, RONDO_SUM, comm, stream);
    };
    static_cast<void>(group.ranks.ranks.run(disagree));
    for (int rank = 0; rank < 2; ++rank) {
      const auto told = [&] { return failure_of(group.ranks.ranks[rank]).status != RONDO_OK; };
      CHECK(becomes_true(told));
      CHECK(failure_of(group.ranks.ranks[rank]).status == RONDO_ERROR_MISMATCH);
    }
  }
}

TEST_CASE("shared launch: calls from several threads, many times, and communicators beside each other",
          "[plain][few queues]") {
  constexpr int rounds = 60;
  Group first(3, 900), second(2, 40);
  std::vector<rondo_status_t> second_statuses;
  std::thread beside([&] {
    second_statuses = second.ranks.ranks.run([&](int rank, rondo_comm_t) {
      for (int round = 0; round < rounds; ++round)
        if (const rondo_status_t status = second.sum(rank); status != RONDO_OK) return status;
      return RONDO_OK;
    });
  });
  const auto statuses = first.ranks.ranks.run([&](int rank, rondo_comm_t comm) {
    void *const data = first.pointer(rank);
    for (int round = 0; round < rounds; ++round)
      if (const rondo_status_t status =
              rondo_all_reduce(data, data, 900, RONDO_FLOAT32, RONDO_MAX, comm, first.ranks.stream(rank));
          status != RONDO_OK)
        return status;
    return rondo_comm_finalize(comm);
  });
  beside.join();
  CHECK(all_ok(statuses));
  CHECK(all_ok(second_statuses));
  std::vector<float> expected = sum_over_ranks(0, 2, 40);
  for (int round = 1; round < rounds; ++round)
    for (float &value : expected) value += value;
  second.check(expected);
}

// SOFT_CUDA_FAULTS names the call.
TEST_CASE("shared launch: a call of the driver that fails is an error of all ranks, and nothing is left",
          "[.][fault]") {
  Group group(3, 1000, by_kernels(3'000));
  const auto many_sums = [&](int rank, rondo_comm_t) {
    for (int round = 0; round < 20; ++round)
      if (const rondo_status_t status = group.sum(rank); status != RONDO_OK) return status;
    return RONDO_OK;
  };
  for (const rondo_status_t status : group.ranks.ranks.run(many_sums)) CHECK(status != RONDO_OK);
  for (int rank = 0; rank < 3; ++rank) CHECK(failure_of(group.ranks.ranks[rank]).status != RONDO_OK);
}
