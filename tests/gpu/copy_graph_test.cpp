// SPDX-License-Identifier: Apache-2.0
// These tests capture calls of the copy-engine executor into graphs, and replay them among other calls and graphs. They
// check how a replay ends after an error. The tag "[no capture]" needs SOFT_CUDA_CAPTURE_WAITS=off.
#include <array>
#include <barrier>

#include "tests/gpu/copy_group.h"
#include "tests/test_clock.h"

using namespace rondo_test;
using namespace rondo::cuda;
using rondo::cuda::conformance::a_while;
using rondo::cuda::conformance::becomes_true;
using rondo::cuda::conformance::Gate;

namespace {

constexpr uint64_t ms = 1'000'000;  ///< in ns
constexpr uint64_t looks = 20;      ///< after this many reads of the clock, each monitor has checked its rank

/// Returns graphs of captured sums, one for each rank of a group.
std::vector<GraphExec> captured_sums(const CopyGroup &group) {
  std::vector<GraphExec> graphs;
  for (int rank = 0; rank < group.ranks.size(); ++rank)
    graphs.push_back(captured(group.world, group.stream(rank), [&, rank] { REQUIRE(group.sum(rank) == RONDO_OK); }));
  return graphs;
}

/// The kinds of work of a step. A step may have several kinds, in this order. Each kind writes its own part of recv.
/// `sum` writes the sum of all ranks' send, `gather` the send of each rank, and `cast` that of rank 0.
enum Work : unsigned { sum = 1, gather = 2, cast = 4 };

/// Ranks with a thread each. All ranks do the same steps, and no rank waits for others between steps. A step copies
/// inputs in, calls or replays, and copies results out.
class Mixture {
 public:
  Mixture(int rank_count, uint64_t seed) : group_(rank_count, config()), seed_(seed), barrier_(rank_count) {
    const auto size = static_cast<size_t>(rank_count);
    recv_count_ = (size + 2) * count;
    std::mt19937_64 bits(seed);
    for (Step &step : steps_) step = {1 + static_cast<unsigned>(bits() % 7), bits() % 3 != 0};
    for (size_t rank = 0; rank < size; ++rank) {
      send_.push_back(group_.world.memory(count * sizeof(float)));
      recv_.push_back(group_.world.memory(recv_count_ * sizeof(float)));
      inputs_.push_back(group_.world.pinned(steps_.size() * count * sizeof(float)));
      results_.push_back(group_.world.pinned(steps_.size() * recv_count_ * sizeof(float)));
      for (size_t step = 0; step < steps_.size(); ++step) {
        const auto values = input(static_cast<int>(rank), step);
        std::copy(values.begin(), values.end(), floats(inputs_[rank]) + step * count);
      }
    }
    graphs_.resize(size);
  }

  void run() {
    const auto outcomes = group_.ranks.each<int>([this](int rank, rondo_comm_t) { return run(rank); });
    for (const int outcome : outcomes) CHECK(outcome == 0);
    for (int rank = 0; rank < group_.ranks.size(); ++rank)
      for (size_t step = 0; step < steps_.size(); ++step) {
        CAPTURE(rank, step, steps_[step].work, steps_[step].replayed, seed_);
        const float *const got = floats(results_[static_cast<size_t>(rank)]) + step * recv_count_;
        CHECK((std::vector<float>(got, got + recv_count_) == expected(step)));
      }
  }

 private:
  static constexpr size_t count = 3001;
  struct Step {
    unsigned work = 0;
    bool replayed = false;
  };

  static rondo_config_t config() {
    rondo_config_t config = by_copies(60'000);
    config.chunk_bytes = 1024;  // more slices than slots
    return config;
  }
  static float *floats(const HostMemory &memory) { return static_cast<float *>(memory.get().object); }
  [[nodiscard]] std::vector<float> input(int rank, size_t step) const {
    return whole_numbers(seed_ + 1000 * step + static_cast<uint64_t>(rank), count);
  }

  [[nodiscard]] std::vector<float> expected(size_t step) const {
    std::vector<float> all(recv_count_, 0);
    for (int rank = 0; rank < group_.ranks.size(); ++rank) {
      const auto values = input(rank, step);
      for (size_t i = 0; i < count; ++i) {
        if ((steps_[step].work & sum) != 0) all[i] += values[i];
        if ((steps_[step].work & gather) != 0) all[count + static_cast<size_t>(rank) * count + i] = values[i];
        if ((steps_[step].work & cast) != 0 && rank == 0) all[recv_count_ - count + i] = values[i];
      }
    }
    return all;
  }

  int enqueue(int rank, unsigned work) const {
    const auto index = static_cast<size_t>(rank);
    const auto *const send = reinterpret_cast<const float *>(send_[index].get().object);
    auto *const recv = reinterpret_cast<float *>(recv_[index].get().object);
    rondo_comm_t comm = group_.ranks[rank];
    rondo_stream_t stream = group_.stream(rank);
    int status = RONDO_OK;
    if ((work & sum) != 0) status |= rondo_all_reduce(send, recv, count, RONDO_FLOAT32, RONDO_SUM, comm, stream);
    if ((work & gather) != 0) status |= rondo_all_gather(send, recv + count, count, RONDO_FLOAT32, comm, stream);
    if ((work & cast) != 0)
      status |= rondo_broadcast(send, recv + recv_count_ - count, count, RONDO_FLOAT32, 0, comm, stream);
    return status;
  }

  /// Replays the graph of `work`. The first replay also captures it, while other ranks may do any work.
  int replay(int rank, unsigned work) {
    const CudaDriver &cu = group_.world.cu;
    auto *const stream = static_cast<CuStream>(group_.stream(rank));
    GraphExec &exec = graphs_[static_cast<size_t>(rank)][work];
    if (!exec.valid()) {
      if (cu.stream_begin_capture(stream, CaptureMode::thread_local_) != CuStatus::success) return -1;
      const int status = enqueue(rank, work);
      CuGraph graph = nullptr;
      if (cu.stream_end_capture(stream, &graph) != CuStatus::success) return -2;
      const Graph captured_once({&cu, group_.world.handle(), graph});
      // Instantiation may wait for the device, so no stream may wait for this rank until it has ended.
      const CuStatus ended = cu.stream_synchronize(stream);
      barrier_.arrive_and_wait();
      CuGraphExec made = nullptr;
      const CuStatus instantiated = cu.graph_instantiate(&made, graph, 0);
      const CuStatus uploaded = cu.graph_upload(made, stream);
      const CuStatus ready = cu.stream_synchronize(stream);
      barrier_.arrive_and_wait();
      if (status != RONDO_OK || ended != CuStatus::success || instantiated != CuStatus::success) return -3;
      if (uploaded != CuStatus::success || ready != CuStatus::success) return -4;
      exec = GraphExec({&cu, group_.world.handle(), made});
    }
    return static_cast<int>(cu.graph_launch(exec.get().object, stream));
  }

  int run(int rank) {
    const CudaDriver &cu = group_.world.cu;
    const ContextGuard guard(cu, group_.world.handle());
    const auto index = static_cast<size_t>(rank);
    auto *const stream = static_cast<CuStream>(group_.stream(rank));
    const DevicePointer send = send_[index].get().object, recv = recv_[index].get().object;
    const size_t send_bytes = count * sizeof(float), recv_bytes = recv_count_ * sizeof(float);
    int failed = 0;
    for (size_t step = 0; step < steps_.size() && failed == 0; ++step) {
      const Step what = steps_[step];
      const float *const from = floats(inputs_[index]) + step * count;
      float *const to = floats(results_[index]) + step * recv_count_;
      failed |= static_cast<int>(cu.memcpy_htod_async(send, from, send_bytes, stream));
      failed |= static_cast<int>(cu.memset_d8_async(recv, 0, recv_bytes, stream));
      failed |= what.replayed ? replay(rank, what.work) : enqueue(rank, what.work);
      failed |= static_cast<int>(cu.memcpy_dtoh_async(to, recv, recv_bytes, stream));
    }
    failed |= static_cast<int>(cu.stream_synchronize(stream));
    barrier_.arrive_and_drop();
    return failed != 0 ? failed : rondo_comm_finalize(group_.ranks[rank]);
  }

  DeviceRanks group_;
  uint64_t seed_;
  size_t recv_count_ = 0;
  std::array<Step, 30> steps_;
  std::vector<DeviceMemory> send_, recv_;
  std::vector<HostMemory> inputs_, results_;
  std::vector<std::array<GraphExec, 8>> graphs_;  ///< by rank and work
  std::barrier<> barrier_;
};

}  // namespace

TEST_CASE("copy executor: a captured sum runs with each replay, more often than there are slots, and among calls") {
  CopyGroup group(2, 100'000);
  const auto graphs = captured_sums(group);
  const auto never = captured_sums(group);
  CHECK_VALUES(group.values(0), std::vector<float>(group.count, 1));  // nothing ran yet
  for (int replay = 0; replay < 9; ++replay)
    for (int rank = 0; rank < 2; ++rank) group.launch(graphs[static_cast<size_t>(rank)], rank);
  group.complete();
  CHECK_VALUES(group.values(0), std::vector<float>(group.count, 512));
  for (int round = 0; round < 10; ++round)
    for (int rank = 0; rank < 2; ++rank) {
      // A replay right after a call must not hide the end of that call, for which finalize waits.
      REQUIRE(group.sum(rank) == RONDO_OK);
      group.launch(graphs[static_cast<size_t>(rank)], rank);
    }
  group.complete();
  CHECK(all_ok(group.ranks.run([](int, rondo_comm_t comm) { return rondo_comm_finalize(comm); })));
  for (int rank = 0; rank < 2; ++rank)
    CHECK_VALUES(group.values(rank), std::vector<float>(group.count, 512.0f * (1 << 20)));
}

TEST_CASE("copy executor: replays among calls and other graphs, in any order, each give what they should") {
  const uint64_t seed = rondo::test::seed_from_environment();
  for (const int rank_count : {1, 2, 3, 4}) {
    if (rondo::test::under_thread_sanitizer && rank_count != 3) continue;
    Mixture(rank_count, seed).run();
  }
}

TEST_CASE("copy executor: replays of what only moves launch no kernel") {
  constexpr int rank_count = 3;
  constexpr size_t count = 1000;
  CopyGroup group(rank_count, count);
  std::vector<DeviceBuffer> whole;
  std::vector<GraphExec> graphs;
  for (int rank = 0; rank < rank_count; ++rank)
    whole.emplace_back(group.world, bytes_of(std::vector<float>(count * rank_count, 0)));
  const auto before = launch_count();  // counts captured launches, too
  for (int rank = 0; rank < rank_count; ++rank) {
    void *const own = group.buffers[static_cast<size_t>(rank)].pointer();
    void *const all = whole[static_cast<size_t>(rank)].pointer();
    graphs.push_back(captured(group.world, group.stream(rank), [&, rank] {
      rondo_comm_t comm = group.ranks[rank];
      REQUIRE(rondo_all_gather(own, all, count, RONDO_FLOAT32, comm, group.stream(rank)) == RONDO_OK);
      REQUIRE(rondo_broadcast(own, own, count, RONDO_FLOAT32, 1, comm, group.stream(rank)) == RONDO_OK);
      REQUIRE(rondo_barrier(comm, group.stream(rank)) == RONDO_OK);
    }));
  }
  for (int replay = 0; replay < 3; ++replay)
    for (int rank = 0; rank < rank_count; ++rank) group.launch(graphs[static_cast<size_t>(rank)], rank);
  group.complete();
  CHECK(launch_count() == before);
  for (const DeviceBuffer &buffer : whole)
    CHECK_VALUES(buffer.read(), std::vector<float>(count * rank_count, 1));
}

TEST_CASE("copy executor: a replay that waits for a rank which does not launch its own ends when the time is up") {
  CopyGroup group(2, 4096, 300);
  const auto graphs = captured_sums(group);
  group.launch(graphs[0], 0);
  group.launch(graphs[0], 0);
  group.synchronize();
  const rondo_error_t error = failure_of(group.ranks[0]);
  CHECK(error.status == RONDO_ERROR_TIMEOUT);
  CHECK(std::string(error.message).find("replayed graph") != std::string::npos);
  CHECK(group.sum(0) != RONDO_OK);
  // A graph that is launched after the failure also ends.
  group.launch(graphs[0], 0);
  group.synchronize();
}

TEST_CASE("copy executor: an abort ends the replays of everybody") {
  CopyGroup group(3, 300'000);
  const auto graphs = captured_sums(group);
  for (int round = 0; round < 4; ++round)
    for (int rank = 0; rank < caller_count; ++rank) group.launch(graphs[static_cast<size_t>(rank)], rank);
  std::this_thread::sleep_for(a_while);
  CHECK(rondo_comm_abort(group.ranks[2]) == RONDO_OK);
  group.synchronize();
  for (int rank = 0; rank < 3; ++rank) CHECK(failure_of(group.ranks[rank]).status == RONDO_ERROR_ABORTED);
}

TEST_CASE("copy executor: replays that go on for longer than the timeout are not taken for one that hangs") {
  constexpr uint32_t timeout_ms = 3000;
  CopyGroup group(2, 64, timeout_ms);
  const auto graphs = captured_sums(group);
  HeldClock clock;  // so no replay takes more than a quarter of the timeout
  for (int round = 0; round < 8; ++round) {
    for (int replay = 0; replay < 100; ++replay) {
      if (replay == 50) clock.advance(timeout_ms / 4 * ms);
      for (int rank = 0; rank < 2; ++rank) group.launch(graphs[static_cast<size_t>(rank)], rank);
    }
    for (int rank = 0; rank < 2; ++rank) REQUIRE(group.sum(rank) == RONDO_OK);
    group.complete();
  }
}

TEST_CASE("copy executor: replays with pauses longer than the timeout between them each have a time of their own",
          "[pauses]") {
  constexpr uint32_t timeout_ms = 3000;
  CopyGroup group(2, 64, timeout_ms);
  const auto graphs = captured_sums(group);
  HeldClock clock;
  for (int replay = 0; replay < 5; ++replay) {
    if (replay > 0) {
      clock.await_reads(looks);  // each monitor has seen the end of the replay
      clock.advance((timeout_ms + timeout_ms / 4) * ms);
      clock.await_reads(looks);
    }
    for (int rank = 0; rank < 2; ++rank) group.launch(graphs[static_cast<size_t>(rank)], rank);
    group.complete();
  }
}

TEST_CASE("copy executor: the time of a call behind replays begins when its stream comes to it", "[pauses]") {
  constexpr uint32_t timeout_ms = 5000, pause_ms = 1500;
  CopyGroup group(2, 64, timeout_ms);
  Gate gate(group.world);
  std::vector<GraphExec> graphs;
  for (int rank = 0; rank < 2; ++rank)
    graphs.push_back(captured(group.world, group.stream(rank), [&, rank] {
      auto *const stream = static_cast<CuStream>(group.stream(rank));
      if (rank == 1) {  // rank 1 is late at each replay
        gate.close(stream);
        CU_OK(group.world.cu.stream_write_value64(stream, reinterpret_cast<DevicePointer>(&gate.word()), 0,
                                                  write_value_default));
      }
      REQUIRE(group.sum(rank) == RONDO_OK);
    }));
  constexpr int replay_count = 4;
  HeldClock clock;
  for (int rank = 0; rank < 2; ++rank) {
    for (int replay = 0; replay < replay_count; ++replay) group.launch(graphs[static_cast<size_t>(rank)], rank);
    REQUIRE(group.sum(rank) == RONDO_OK);
  }
  for (int replay = 0; replay < replay_count; ++replay) {
    clock.await_reads(looks);  // the monitor looks before and after the pause
    clock.advance(pause_ms * ms);
    clock.await_reads(looks);
    gate.open();
    // acquire; pairs with the release of the stream's write
    CHECK(becomes_true([&] { return std::atomic_ref(gate.word()).load(std::memory_order_acquire) == 0; }));
  }
  group.complete();
  for (int rank = 0; rank < 2; ++rank) CHECK_VALUES(group.values(rank), std::vector<float>(group.count, 32));
}

TEST_CASE("copy executor: a driver that captures no waits is told of, and the communicator goes on",
          "[.][no capture]") {
  CopyGroup group(1, 64);
  auto *const stream = static_cast<CuStream>(group.stream(0));
  CU_OK(group.world.cu.stream_begin_capture(stream, CaptureMode::thread_local_));
  CHECK(group.sum(0) == RONDO_ERROR_UNSUPPORTED);
  CHECK(error_message().find("the stream is being captured") != std::string::npos);
  CHECK(error_message().find("RONDO_DEVICE_EXECUTOR=kernel") != std::string::npos);
  CuGraph graph = nullptr;
  CU_OK(group.world.cu.stream_end_capture(stream, &graph));
  CU_OK(group.world.cu.graph_destroy(graph));
  CHECK(group.sum(0) == RONDO_OK);
}
