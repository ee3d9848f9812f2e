// SPDX-License-Identifier: Apache-2.0
// Tests the kernel load_store on devices through the public interface. Ranks that are threads call and replay sums,
// abort, and disagree. If the kernel is not available, calls fail. "[image]" needs a driver in software whose image
// lacks the kernel.
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/device_ranks.h"
#include "tests/sanitized.h"

using namespace rondo_test;
using namespace rondo::cuda;

namespace {

constexpr rondo_algorithm_t load_store_algorithms[] = {RONDO_ALGORITHM_ONE_SHOT, RONDO_ALGORITHM_TWO_SHOT};

rondo_config_t with_load_store(rondo_algorithm_t algorithm = RONDO_ALGORITHM_AUTO,
                               rondo_config_t config = on_device()) {
  config.kernel = RONDO_KERNEL_LOAD_STORE;
  config.algorithm = algorithm;
  return config;
}

/// One buffer for each rank, for calls in place.
struct OwnBuffers {
  OwnBuffers(const DeviceRanks &of, size_t of_count, uint64_t seed = 0) : group(of), count(of_count) {
    for (int rank = 0; rank < group.ranks.size(); ++rank)
      each.emplace_back(group.world, bytes_of(whole_numbers(seed + static_cast<uint64_t>(rank), count)));
  }
  [[nodiscard]] rondo_status_t call(int rank, size_t elements, rondo_op_t op = RONDO_SUM) const {
    void *const pointer = each[static_cast<size_t>(rank)].pointer();
    return rondo_all_reduce(pointer, pointer, elements, RONDO_FLOAT32, op, group.ranks[rank], group.stream(rank));
  }
  void call_all(rondo_op_t op = RONDO_SUM) const {  // one thread makes all calls, because none waits
    for (int rank = 0; rank < group.ranks.size(); ++rank) REQUIRE(call(rank, count, op) == RONDO_OK);
  }
  void check(const std::vector<float> &expected) const {
    for (const DeviceBuffer &buffer : each) CHECK_VALUES(buffer.read(), expected);
  }

  const DeviceRanks &group;
  size_t count;
  std::vector<DeviceBuffer> each;
};

}  // namespace

TEST_CASE("load_store: ranks that share buffers have it, asked or not, unless they ask for something else", "[plain]") {
  rondo_config_t simple = on_device();
  simple.protocol = RONDO_PROTOCOL_SIMPLE;
  DeviceRanks asking(2, with_load_store()), plain(2), other(2, simple);
  for (const size_t count : {0, 1, 16384, 16385, 10'000'000}) {
    for (const DeviceRanks *const group : {&asking, &plain}) {
      const rondo_plan_info_t plan = plan_of(group->ranks[0], count);
      CHECK(plan.kernel == RONDO_KERNEL_LOAD_STORE);
      CHECK(plan.algorithm == (count <= 16384 ? RONDO_ALGORITHM_ONE_SHOT : RONDO_ALGORITHM_TWO_SHOT));
      if (count <= 1) CHECK(plan.channels == 1);
      if (count == 10'000'000 && in_software()) CHECK(plan.channels == (group == &asking ? 16u : 2u));  // of 64 blocks
    }
    CHECK(plan_of(other.ranks[0], count).protocol == RONDO_PROTOCOL_SIMPLE);
  }
  const auto barrier_and_finalize = [&](int rank, rondo_comm_t comm) {
    const rondo_status_t status = rondo_barrier(comm, asking.stream(rank));
    return status == RONDO_OK ? rondo_comm_finalize(comm) : status;
  };
  CHECK(all_ok(asking.ranks.run(barrier_and_finalize)));
}

TEST_CASE("load_store: ranks that are threads sum what they have, in and out of place, among barriers",
          "[plain][short]") {
  rondo_test::GateShare share("sizes of sums by load_store");
  for (const auto algorithm : load_store_algorithms)
    for (const int rank_count : {1, 2, 5}) {
      rondo_config_t config = with_load_store(algorithm);
      config.channels = 3;
      DeviceRanks group(rank_count, config);
      const size_t most = algorithm == RONDO_ALGORITHM_ONE_SHOT ? 16'384 : 700'001;
      for (const size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{64}, size_t{1000}, most}) {
        if (!share.has_next()) continue;
        CAPTURE(rank_count, count, rondo_algorithm_string(algorithm));
        const OwnBuffers send(group, count, count), recv(group, count, 77);
        const auto expected = sum_over_ranks(count, rank_count, count);
        for (int rank = 0; rank < rank_count; ++rank)
          REQUIRE(rondo_all_reduce(send.each[static_cast<size_t>(rank)].pointer(),
                                   recv.each[static_cast<size_t>(rank)].pointer(), count, RONDO_FLOAT32, RONDO_SUM,
                                   group.ranks[rank], group.stream(rank)) == RONDO_OK);
        for (int rank = 0; rank < rank_count; ++rank)
          REQUIRE(rondo_barrier(group.ranks[rank], group.stream(rank)) == RONDO_OK);
        send.call_all();
        send.call_all(RONDO_MAX);  // all operands are equal by now
        group.complete();
        recv.check(expected);
        send.check(expected);
      }
    }
}

TEST_CASE("load_store: ranks that share buffers with unlike alignment, and elements that no block has",
          "[plain][short]") {
  rondo_test::GateShare share("alignments of sums by load_store");
  for (const auto &[rank_count, count] : {std::pair{2, size_t{32}}, {3, size_t{8193}}, {3, size_t{100'003}}}) {
    DeviceRanks group(rank_count);
    for (const size_t skew : {size_t{0}, size_t{1}, size_t{3}}) {  // offset of rank 1's buffers, in elements
      if (!share.has_next()) continue;
      const OwnBuffers send(group, count + skew), recv(group, count + skew);
      for (int rank = 0; rank < rank_count; ++rank) {
        const size_t off = rank == 1 ? skew * sizeof(float) : 0;
        auto *const from = static_cast<std::byte *>(send.each[static_cast<size_t>(rank)].pointer()) + off;
        auto *const to = static_cast<std::byte *>(recv.each[static_cast<size_t>(rank)].pointer()) + off;
        for (int call = 0; call < 2; ++call)  // two calls, because the first post is never a short one
          REQUIRE(rondo_all_reduce(from, to, count, RONDO_FLOAT32, RONDO_SUM, group.ranks[rank], group.stream(rank)) ==
                  RONDO_OK);
      }
      group.complete();
      std::vector<float> expected(count, 0);
      for (int rank = 0; rank < rank_count; ++rank) {
        const auto values = whole_numbers(static_cast<uint64_t>(rank), count + skew);
        for (size_t i = 0; i < count; ++i) expected[i] += values[i + (rank == 1 ? skew : 0)];
      }
      for (int rank = 0; rank < rank_count; ++rank) {
        auto got = values_of<float>(recv.each[static_cast<size_t>(rank)].read());
        if (rank == 1) got.erase(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(skew));
        got.resize(count);
        CHECK(got == expected);
      }
    }
  }
}

TEST_CASE("load_store: ranks on two devices read each other's memory", "[plain]") {
  if (!has_two_devices("load_store on two devices")) return;
  const World first(0), second(1);
  const std::vector<const World *> worlds{&first, &second, &second};
  for (const auto algorithm : load_store_algorithms) {
    const Ranks ranks({with_load_store(algorithm, on_device(0)), with_load_store(algorithm, on_device(1)),
                       with_load_store(algorithm, on_device(1))});
    if (ranks.status() != RONDO_OK) FAIL(error_message());
    constexpr size_t count = 8001;  // nearly the longest one_shot that is pushed
    std::vector<DeviceBuffer> buffers;
    std::vector<Stream> streams;
    for (size_t rank = 0; rank < 3; ++rank) {
      buffers.emplace_back(*worlds[rank], bytes_of(whole_numbers(rank, count)));
      streams.push_back(worlds[rank]->another_stream());
    }
    for (size_t rank = 0; rank < 3; ++rank)
      REQUIRE(rondo_all_reduce(buffers[rank].pointer(), buffers[rank].pointer(), count, RONDO_FLOAT32, RONDO_SUM,
                               ranks[static_cast<int>(rank)], streams[rank].get().object) == RONDO_OK);
    for (const Stream &stream : streams) CU_OK(first.cu.stream_synchronize(stream.get().object));
    for (const DeviceBuffer &buffer : buffers) CHECK_VALUES(buffer.read(), sum_over_ranks(0, 3, count));
  }
}

TEST_CASE("load_store: captured calls are replayed, each time on what is there then, among calls of either kind",
          "[plain][short]") {
  constexpr std::pair<size_t, int> shapes[] = {{64, 2}, {1000, 3}, {50'000, 3}};  // two one_shots and a two_shot
  for (const auto &shape : shapes) {
    const size_t captured_count = shape.first;
    const int rank_count = shape.second;
    DeviceRanks group(rank_count, with_load_store());
    const OwnBuffers buffers(group, captured_count);
    const OwnBuffers small(group, 300, 5), large(group, 40'000, 6);
    std::vector<GraphExec> graphs;
    for (int rank = 0; rank < rank_count; ++rank)
      graphs.push_back(captured(group.world, group.stream(rank), [&] {
        REQUIRE(buffers.call(rank, captured_count, RONDO_MAX) == RONDO_OK);
        REQUIRE(buffers.call(rank, captured_count, RONDO_SUM) == RONDO_OK);
      }));
    float expected = 1;
    for (int round = 0; round < (sanitized() ? 9 : 20); ++round) {
      const int what = round % 4;
      if (what == 0) small.call_all(RONDO_MAX);
      if (what == 1) large.call_all(RONDO_MAX);
      if (round == 0)
        for (const DeviceBuffer &buffer : buffers.each) buffer.write(bytes_of(std::vector<float>(captured_count, 1)));
      for (int rank = 0; rank < rank_count; ++rank) group.launch(graphs[static_cast<size_t>(rank)], rank);
      expected *= static_cast<float>(rank_count);
      if (round % 7 != 6) continue;
      group.complete();
      buffers.check(std::vector<float>(captured_count, expected));
      expected = 1;
      for (const DeviceBuffer &buffer : buffers.each) buffer.write(bytes_of(std::vector<float>(captured_count, 1)));
    }
    group.complete();
    buffers.check(std::vector<float>(captured_count, expected));
  }
}

TEST_CASE("load_store: an abort ends a kernel that waits, and everybody hears of it", "[plain][short]") {
  for (const auto algorithm : load_store_algorithms)
    for (const size_t count : {size_t{64}, size_t{4096}}) {  // one short post, and more
      if (!has_turn(static_cast<uint64_t>(algorithm) + (count == 64), "lengths")) continue;
      CAPTURE(rondo_algorithm_string(algorithm), count);
      DeviceRanks group(2, with_load_store(algorithm));
      const OwnBuffers buffers(group, count);
      REQUIRE(buffers.call(0, count) == RONDO_OK);  // rank 1 never calls
      std::this_thread::sleep_for(conformance::a_while);
      CHECK(rondo_comm_abort(group.ranks[1]) == RONDO_OK);
      group.synchronize();
      for (int rank = 0; rank < 2; ++rank) CHECK(failure_of(group.ranks[rank]).status == RONDO_ERROR_ABORTED);
    }
}

TEST_CASE("load_store: ranks that disagree are told, and one that does not come is named", "[plain][short]") {
  for (const auto algorithm : load_store_algorithms)
    for (const size_t count : {size_t{64}, size_t{4096}}) {  // one short post, and more
      if (!has_turn(static_cast<uint64_t>(algorithm) + (count == 64), "lengths")) continue;
      CAPTURE(rondo_algorithm_string(algorithm), count);
      DeviceRanks group(2, with_load_store(algorithm));
      const OwnBuffers buffers(group, count);
      REQUIRE(buffers.call(0, count) == RONDO_OK);
      REQUIRE(buffers.call(1, count - 1) == RONDO_OK);
      group.synchronize();
      for (int rank = 0; rank < 2; ++rank) CHECK(failure_of(group.ranks[rank]).status == RONDO_ERROR_MISMATCH);
      rondo_config_t hasty = with_load_store(algorithm);
      hasty.timeout_ms = 300;
      DeviceRanks late(2, hasty);
      const OwnBuffers alone(late, count);
      REQUIRE(alone.call(0, count) == RONDO_OK);
      late.synchronize();
      const rondo_error_t error = failure_of(late.ranks[0]);
      CHECK(error.status == RONDO_ERROR_TIMEOUT);
      CHECK(error.peer == 1);
    }
}

// If a rank meets another operation on its first channel, it also closes its second channel, on which the other
// operation does not run. A peer may see the closed channel first.
TEST_CASE("load_store: ranks of several channels all hear of one whose operation has fewer", "[plain]") {
  constexpr size_t count = 64 << 10, other_count = 20 << 10;
  for (int round = 0; round < (sanitized() ? 2 : 5); ++round) {
    DeviceRanks group(3);
    REQUIRE(plan_of(group.ranks[0], count).channels > plan_of(group.ranks[0], other_count).channels);
    const OwnBuffers buffers(group, count);
    for (int rank = 0; rank < 3; ++rank) REQUIRE(buffers.call(rank, rank == 2 ? other_count : count) == RONDO_OK);
    const auto hear = [&](int rank, rondo_comm_t comm) {
      // No assertion here, because other threads run this.
      const auto ended = group.world.cu.stream_synchronize(static_cast<CuStream>(group.stream(rank)));
      return ended == CuStatus::success ? failure_of(comm).status : RONDO_ERROR_INTERNAL;
    };
    CAPTURE(round);
    CHECK(group.ranks.run(hear) == std::vector<rondo_status_t>(3, RONDO_ERROR_MISMATCH));
  }
}

TEST_CASE("load_store: what it is not for is refused with what can be, and takes no number", "[plain]") {
  DeviceRanks group(2, with_load_store());
  const OwnBuffers buffers(group, 4096);
  const auto gather = [&](int rank) {
    void *const pointer = buffers.each[static_cast<size_t>(rank)].pointer();
    constexpr size_t counts[] = {8, 8};
    return rondo_all_gather_v(static_cast<std::byte *>(pointer) + rank * 8 * sizeof(float), pointer, counts, nullptr,
                              RONDO_FLOAT32, group.ranks[rank], group.stream(rank));
  };
  CHECK(gather(0) == RONDO_ERROR_UNSUPPORTED);
  check_message({"'load_store'", "all_reduce of at most 65536 bytes by one_shot", "any size by two_shot",
                 "all_gather by one_shot", "reduce by two_shot", "_v", "'auto'"});
  buffers.call_all();
  group.complete();
  buffers.check(sum_over_ranks(0, 2, 4096));
  for (const auto algorithm : {RONDO_ALGORITHM_RING, RONDO_ALGORITHM_TREE}) {
    DeviceRanks others(2, with_load_store(algorithm));
    CHECK(OwnBuffers(others, 16).call(0, 16) == RONDO_ERROR_UNSUPPORTED);
  }
  DeviceRanks one_shot(2, with_load_store(RONDO_ALGORITHM_ONE_SHOT));
  const OwnBuffers posts(one_shot, 16'385);
  CHECK(posts.call(0, 16'385) == RONDO_ERROR_UNSUPPORTED);
  for (int rank = 0; rank < 2; ++rank) CHECK(posts.call(rank, 16'384) == RONDO_OK);
}

TEST_CASE("load_store: a communicator by copies refuses it and names what can be", "[plain]") {
  rondo_config_t by_copies = on_device();
  by_copies.device_executor = RONDO_DEVICE_EXECUTOR_COPY;
  DeviceRanks group(2, with_load_store(RONDO_ALGORITHM_AUTO, by_copies));
  const OwnBuffers buffers(group, 16);
  CHECK(buffers.call(0, 16) == RONDO_ERROR_UNSUPPORTED);
  check_message({"'load_store'", "on devices for the executor 'kernel' alone", "these can be: 'auto', 'interpreter'"});
}

TEST_CASE("load_store: ranks that do not all ask for it are told", "[plain]") {
  const Ranks ranks({on_device(), with_load_store()});
  CHECK(ranks.status() == RONDO_ERROR_MISMATCH);
  check_message({"RONDO_KERNEL"});
}

TEST_CASE("load_store: an image without its kernels is refused, and serves the others", "[.][image]") {
  CHECK(Ranks(1, with_load_store()).status() == RONDO_ERROR_UNSUPPORTED);
  check_message({"'load_store'", "cannot be loaded", "rondo_run_load_store_copy", "RONDO_KERNEL=interpreter"});
  CHECK(Ranks(1, on_device()).status() == RONDO_OK);
}
