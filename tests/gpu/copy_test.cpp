// SPDX-License-Identifier: Apache-2.0
// These tests cover the behaviour of the copy-engine executor: what it launches, how its work is ordered, and how calls
// end after an error. Tags are arguments of the program; "[queue]" needs SOFT_CUDA_LAUNCH_QUEUE=16.
#include <array>

#include "tests/gpu/copy_group.h"

using namespace rondo_test;
using namespace rondo::cuda;
using rondo::cuda::conformance::a_while;
using rondo::cuda::conformance::Gate;

TEST_CASE("copy executor: what only moves launches no kernel, a reduction those that reduce") {
  constexpr int rank_count = 3;
  constexpr size_t count = 1000;
  CopyGroup group(rank_count, count);
  std::vector<DeviceBuffer> whole;
  for (int rank = 0; rank < rank_count; ++rank)
    whole.emplace_back(group.world, bytes_of(std::vector<float>(count * rank_count, 0)));
  const auto before = launch_count();
  for (int rank = 0; rank < rank_count; ++rank) {
    void *const own = group.buffers[static_cast<size_t>(rank)].pointer();
    void *const all = whole[static_cast<size_t>(rank)].pointer();
    rondo_comm_t comm = group.ranks[rank];
    REQUIRE(rondo_all_gather(own, all, count, RONDO_FLOAT32, comm, group.stream(rank)) == RONDO_OK);
    REQUIRE(rondo_broadcast(own, own, count, RONDO_FLOAT32, 1, comm, group.stream(rank)) == RONDO_OK);
    REQUIRE(rondo_barrier(comm, group.stream(rank)) == RONDO_OK);
  }
  group.complete();
  for (const DeviceBuffer &buffer : whole)
    CHECK_VALUES(buffer.read(), std::vector<float>(count * rank_count, 1));
  CHECK(launch_count() == before);
  for (int rank = 0; rank < rank_count; ++rank) REQUIRE(group.sum(rank) == RONDO_OK);
  group.complete();
  if (before.has_value()) CHECK(*launch_count() > *before);
  for (int rank = 0; rank < rank_count; ++rank) {
    CHECK_VALUES(group.values(rank), std::vector<float>(count, rank_count));
    rondo_comm_properties_t properties = RONDO_COMM_PROPERTIES_INIT;
    CHECK(rondo_comm_get_properties(group.ranks[rank], &properties) == RONDO_OK);
    CHECK(properties.device_executor == RONDO_DEVICE_EXECUTOR_COPY);
  }
  CHECK(all_ok(group.ranks.run([](int, rondo_comm_t comm) { return rondo_comm_finalize(comm); })));
}

TEST_CASE("copy executor: calls come in their order, whatever streams they are on, and after what is before them") {
  CopyGroup group(2, 4096);
  Gate gate(group.world);
  const std::array<Stream, 2> others{group.world.another_stream(), group.world.another_stream()};
  for (int rank = 0; rank < 2; ++rank) gate.close(static_cast<CuStream>(group.stream(rank)));
  for (int round = 0; round < 3; ++round)
    for (int rank = 0; rank < 2; ++rank) {
      REQUIRE(group.sum(rank) == RONDO_OK);
      REQUIRE(group.sum(rank, others[static_cast<size_t>(rank)].get().object, group.count) == RONDO_OK);
    }
  std::this_thread::sleep_for(a_while);
  CHECK_VALUES(group.values(0), std::vector<float>(group.count, 1));
  gate.open();
  group.complete();
  for (const Stream &stream : others) CU_OK(group.world.cu.stream_synchronize(stream.get().object));
  for (int rank = 0; rank < 2; ++rank) CHECK_VALUES(group.values(rank), std::vector<float>(group.count, 64));
}

TEST_CASE("copy executor: communicators in flight together do not wait for each other") {
  CopyGroup first(2, 100'003), second(2, 100'003);
  for (int round = 0; round < 3; ++round) {
    // Rank 0 calls on the two communicators in one order, and rank 1 in the other.
    REQUIRE(first.sum(0) == RONDO_OK);
    REQUIRE(second.sum(0) == RONDO_OK);
    REQUIRE(second.sum(1) == RONDO_OK);
    REQUIRE(first.sum(1) == RONDO_OK);
  }
  first.complete();
  second.complete();
  for (int rank = 0; rank < 2; ++rank) {
    CHECK_VALUES(first.values(rank), std::vector<float>(first.count, 8));
    CHECK_VALUES(second.values(rank), std::vector<float>(second.count, 8));
  }
}

TEST_CASE("copy executor: ll is refused, and ranks must agree on the executor") {
  rondo_config_t config = by_copies();
  config.protocol = RONDO_PROTOCOL_LL;
  {
    DeviceRanks group(1, config);
    const DeviceBuffer buffer(group.world, bytes_of(std::vector<float>(16, 1)));
    CHECK(rondo_all_reduce(buffer.pointer(), buffer.pointer(), 16, RONDO_FLOAT32, RONDO_SUM, group.ranks[0],
                           group.stream(0)) == RONDO_ERROR_UNSUPPORTED);
  }
  std::array<rondo_config_t, 2> configs{by_copies(), on_device()};
  std::array<rondo_comm_t, 2> comms{};
  CHECK(rondo_comm_init_all(comms.data(), 2, configs.data()) == RONDO_ERROR_MISMATCH);
  CHECK(error_message().find("RONDO_DEVICE_EXECUTOR") != std::string::npos);
}

TEST_CASE("copy executor: an abort ends the waits of everybody") {
  CopyGroup group(3, 300'000);
  for (int round = 0; round < 4; ++round)
    for (int rank = 0; rank < caller_count; ++rank) REQUIRE(group.sum(rank) == RONDO_OK);  // rank 2 never calls
  std::this_thread::sleep_for(a_while);
  CHECK(rondo_comm_abort(group.ranks[2]) == RONDO_OK);
  group.synchronize();
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(failure_of(group.ranks[rank]).status == RONDO_ERROR_ABORTED);
    CHECK(group.sum(rank) != RONDO_OK);
  }
}

TEST_CASE("copy executor: a rank that does not come is named when the time is up") {
  CopyGroup group(2, 4096, 300);
  REQUIRE(group.sum(0) == RONDO_OK);
  group.synchronize();
  const rondo_error_t error = failure_of(group.ranks[0]);
  CHECK(error.status == RONDO_ERROR_TIMEOUT);
  CHECK(error.peer == 1);
}

TEST_CASE("copy executor: ranks that disagree hear of it, and nothing of the wrong size is taken") {
  if (rondo::test::skips_released_copies(true, "ranks that disagree")) return;
  const bool behind_others = GENERATE(false, true);
  CopyGroup group(2, 4096);
  // A late rank's own call may report the error.
  const auto call = [&](int rank, size_t count) {
    const rondo_status_t status = group.sum(rank, group.stream(rank), count);
    return status == RONDO_OK || status == RONDO_ERROR_MISMATCH || status == RONDO_ERROR_COMM_FAILED;
  };
  if (behind_others) {
    // Rank 0 makes all its calls first. These are more calls than a rank remembers of its peers.
    for (int rank = 0; rank < 2; ++rank)
      for (int round = 0; round < 40; ++round) REQUIRE(call(rank, rank == 0 && round == 2 ? 4095 : 4096));
  } else {
    REQUIRE(call(0, 4096));
    REQUIRE(call(1, 4095));
  }
  group.synchronize();
  for (int rank = 0; rank < 2; ++rank) {
    const rondo_error_t error = failure_of(group.ranks[rank]);
    CHECK(error.status == RONDO_ERROR_MISMATCH);
    CHECK(error.operation == (behind_others ? 3u : 1u));
  }
}

TEST_CASE("copy executor: a call whose stream comes to it when its communicator is gone does not hang") {
  World world;
  Gate gate(world);
  std::vector<Stream> streams;
  for (int rank = 0; rank < 2; ++rank) streams.push_back(world.another_stream());
  std::vector<DeviceBuffer> buffers;  // made before any call, since allocation may wait for the device
  for (int rank = 0; rank < 2; ++rank) buffers.emplace_back(world, bytes_of(std::vector<float>(4096, 1)));
  const auto before = conformance::live_counts();
  {
    Ranks ranks(2, by_copies());
    REQUIRE(ranks.status() == RONDO_OK);
    for (int rank = 0; rank < caller_count; ++rank) {
      const auto index = static_cast<size_t>(rank);
      gate.close(streams[index].get().object);
      for (int call = 0; call <= 3 * (1 - rank); ++call)  // rank 0 calls more often than rank 1
        REQUIRE(rondo_all_reduce(buffers[index].pointer(), buffers[index].pointer(), 4096, RONDO_FLOAT32, RONDO_SUM,
                                 ranks[rank], streams[index].get().object) == RONDO_OK);
    }
    CHECK(rondo_comm_abort(ranks[0]) == RONDO_OK);
    std::vector<std::thread> threads;  // each destroy waits 5 s for its stream, so all wait at once
    for (int rank = 0; rank < caller_count; ++rank) {
      threads.emplace_back([comm = ranks[rank]] { static_cast<void>(rondo_comm_destroy(comm)); });
      ranks.forget(rank);
    }
    for (std::thread &thread : threads) thread.join();
    gate.open();
    for (const Stream &stream : streams) CU_OK(world.cu.stream_synchronize(stream.get().object));
  }
  // After a while, all objects that the communicator left are returned to the driver.
  CHECK(conformance::becomes_true([&] { return conformance::live_counts() == before; }));
}

TEST_CASE("copy executor: one thread that fills a queue for several ranks is told by the timeout", "[.][queue]") {
  CopyGroup group(2, 4'000'000, 500);
  CHECK(group.sum(0) == RONDO_OK);  // waits in the driver for rank 1, for which this same thread would call next
  const rondo_error_t error = failure_of(group.ranks[0]);
  CHECK(error.status == RONDO_ERROR_TIMEOUT);
  CHECK(error.peer == 1);
}
