// SPDX-License-Identifier: Apache-2.0
// These tests send messages on device memory through the public interface, by the kernel executor or by that of
// RONDO_DEVICE_EXECUTOR. "[copy fault]" needs an error of a copy.
#include <string>
#include <vector>

#include "tests/gpu/device_failures.h"
#include "tests/gpu/device_ranks.h"
#include "tests/gpu/message_exchange.h"
#include "tests/test_clock.h"

using namespace rondo_test;

TEST_CASE("device messages: a rank sends and another one receives on a stream") {
  for (const size_t count : {size_t{0}, size_t{1}, size_t{1000}, size_t{300'000}}) {
    CAPTURE(count);
    DeviceRanks group(2, on_executor());
    const DeviceBuffer sent(group.world, bytes_of(whole_numbers(7, count)));
    const DeviceBuffer received(group.world, bytes_of(std::vector<float>(count, -1)));
    REQUIRE(rondo_send(sent.pointer(), count, RONDO_FLOAT32, 1, group.ranks[0], group.stream(0)) == RONDO_OK);
    REQUIRE(rondo_recv(received.pointer(), count, RONDO_FLOAT32, 0, group.ranks[1], group.stream(1)) == RONDO_OK);
    group.complete();
    CHECK_VALUES(received.read(), whole_numbers(7, count));
    CHECK(all_ok(group.ranks.run([](int, rondo_comm_t comm) { return rondo_comm_finalize(comm); })));
  }
}

TEST_CASE("device messages: groups of all ranks, with themselves, of sizes from nothing to many slots") {
  for (const int size : {1, 2, 3, 8}) {
    CAPTURE(size);
    DeviceRanks group(size, on_executor());
    const Exchange exchange(group, {0, 5, 100'000, 0, 17});
    for (int round = 0; round < 3; ++round)
      CHECK(all_ok(call_each(group.ranks, [&](int rank, rondo_comm_t comm) { return exchange.call(rank, comm); })));
    group.complete();
    exchange.check();
    CHECK(all_ok(group.ranks.run([](int, rondo_comm_t comm) { return rondo_comm_finalize(comm); })));
  }
}

TEST_CASE("device messages: messages larger than all slots of a pair cross in one group") {
  DeviceRanks group(2, on_executor());
  const Exchange exchange(group, {700'000, 3});
  CHECK(all_ok(call_each(group.ranks, [&](int rank, rondo_comm_t comm) { return exchange.call(rank, comm); })));
  group.complete();
  exchange.check();
}

TEST_CASE("device messages: a group meets calls that come one after the other") {
  constexpr size_t large = 1'000'000, small = 10;  // a large message does not fit into the slots
  DeviceRanks group(2, on_executor());
  const DeviceBuffer x(group.world, bytes_of(whole_numbers(1, large)));
  const DeviceBuffer y(group.world, bytes_of(whole_numbers(2, small)));
  const DeviceBuffer to_x(group.world, bytes_of(std::vector<float>(large, -1)));
  const DeviceBuffer to_y(group.world, bytes_of(std::vector<float>(small, -1)));
  const auto call = [](auto function, const DeviceBuffer &buffer, size_t count, int peer, DeviceRanks &of, int rank) {
    return function(buffer.pointer(), count, RONDO_FLOAT32, peer, of.ranks[rank], of.stream(rank));
  };
  REQUIRE(rondo_group_begin() == RONDO_OK);
  CHECK(call(rondo_recv, to_y, small, 1, group, 0) == RONDO_OK);
  CHECK(call(rondo_send, x, large, 1, group, 0) == RONDO_OK);
  REQUIRE(rondo_group_end() == RONDO_OK);
  CHECK(call(rondo_recv, to_x, large, 0, group, 1) == RONDO_OK);
  CHECK(call(rondo_send, y, small, 0, group, 1) == RONDO_OK);
  group.complete();
  CHECK_VALUES(to_x.read(), whole_numbers(1, large));
  CHECK_VALUES(to_y.read(), whole_numbers(2, small));
}

TEST_CASE("device messages: batches and collectives of a communicator run in the order of their calls") {
  DeviceRanks group(3, on_executor());
  constexpr size_t count = 5'000;
  const Exchange exchange(group, {count});
  std::vector<DeviceBuffer> sums;
  for (int rank = 0; rank < 3; ++rank)
    sums.emplace_back(group.world, bytes_of(whole_numbers(static_cast<uint64_t>(rank), count)));
  const DeviceBuffer extra(group.world, std::vector<std::byte>(64));
  CHECK(all_ok(call_each(group.ranks, [&](int rank, rondo_comm_t comm) {
    void *const sum = sums[static_cast<size_t>(rank)].pointer();
    // Ranks 0 and 1 have one more operation than rank 2, so turns and numbers of collectives differ.
    rondo_status_t status = RONDO_OK;
    if (rank == 0) status = rondo_send(extra.pointer(), 3, RONDO_INT8, 1, comm, group.stream(rank));
    if (rank == 1) status = rondo_recv(extra.pointer(), 3, RONDO_INT8, 0, comm, group.stream(rank));
    if (status == RONDO_OK)
      status = rondo_all_reduce(sum, sum, count, RONDO_FLOAT32, RONDO_SUM, comm, group.stream(rank));
    if (status == RONDO_OK) status = exchange.call(rank, comm);
    if (status == RONDO_OK && rondo_group_begin() == RONDO_OK) {
      static_cast<void>(rondo_all_reduce(sum, sum, count, RONDO_FLOAT32, RONDO_MAX, comm, group.stream(rank)));
      if (exchange.call(rank, comm) != RONDO_OK) return RONDO_ERROR_INTERNAL;
      status = rondo_group_end();
    }
    return status;
  })));
  group.complete();
  exchange.check();
  for (const DeviceBuffer &sum : sums) CHECK_VALUES(sum.read(), sum_over_ranks(0, 3, count));
  CHECK(all_ok(group.ranks.run([](int, rondo_comm_t comm) { return rondo_comm_finalize(comm); })));
}

TEST_CASE("device messages: sizes that differ are named on both ranks") {
  DeviceRanks group(2, on_executor());
  const DeviceBuffer sent(group.world, std::vector<std::byte>(400'000));
  const DeviceBuffer received(group.world, std::vector<std::byte>(4096));
  REQUIRE(rondo_send(sent.pointer(), 4, RONDO_FLOAT32, 1, group.ranks[0], group.stream(0)) == RONDO_OK);
  REQUIRE(rondo_send(sent.pointer(), 100'000, RONDO_FLOAT32, 1, group.ranks[0], group.stream(0)) == RONDO_OK);
  REQUIRE(rondo_recv(received.pointer(), 16, RONDO_INT8, 0, group.ranks[1], group.stream(1)) == RONDO_OK);
  REQUIRE(rondo_recv(received.pointer(), 2048, RONDO_FLOAT16, 0, group.ranks[1], group.stream(1)) == RONDO_OK);
  for (int rank = 0; rank < 2; ++rank)
    check_failure(group.ranks[rank], RONDO_ERROR_MISMATCH,
                  {"rank 1 receives message 2 from rank 0 as 4096 bytes (float16)",
                   "rank 0 sent 400000 bytes (float32)"});
}

TEST_CASE("device messages: of several messages of a group, the one whose sizes differ is named") {
  constexpr size_t small = 256, large = 1 << 18;
  for (int round = 0; round < 10; ++round) {
    DeviceRanks group(2, on_executor());
    const DeviceBuffer sent(group.world, std::vector<std::byte>(large * sizeof(float)));
    const DeviceBuffer received(group.world, std::vector<std::byte>(large * sizeof(float)));
    CHECK(all_ok(call_each(group.ranks, [&](int rank, rondo_comm_t comm) {
      if (rondo_group_begin() != RONDO_OK) return RONDO_ERROR_INTERNAL;
      for (const size_t count : {small, rank == 0 ? large : large / 2}) {
        if (rank == 0) static_cast<void>(rondo_send(sent.pointer(), count, RONDO_FLOAT32, 1, comm, group.stream(0)));
        else static_cast<void>(rondo_recv(received.pointer(), count, RONDO_FLOAT32, 0, comm, group.stream(1)));
      }
      return rondo_group_end();
    })));
    for (int rank = 0; rank < 2; ++rank)
      check_failure(group.ranks[rank], RONDO_ERROR_MISMATCH,
                    {"rank 1 receives message 2 from rank 0 as 524288 bytes (float32)",
                     "rank 0 sent 1048576 bytes (float32)"});
  }
}

TEST_CASE("device messages: a message without a counterpart times out with what the peer has called") {
  rondo_config_t config = on_executor();
  config.timeout_ms = 500;
  DeviceRanks group(2, config);
  const DeviceBuffer buffer(group.world, std::vector<std::byte>(64));
  const auto receive = [&] {
    return rondo_recv(buffer.pointer(), 1, RONDO_INT8, 0, group.ranks[1], group.stream(1));
  };
  {
    const HeldClock clock;  // no time passes, so the first message is received in time
    REQUIRE(rondo_send(buffer.pointer(), 1, RONDO_INT8, 1, group.ranks[0], group.stream(0)) == RONDO_OK);
    REQUIRE(receive() == RONDO_OK);
    group.complete();
  }
  REQUIRE(receive() == RONDO_OK);
  for (int rank = 0; rank < 2; ++rank)
    check_failure(group.ranks[rank], RONDO_ERROR_TIMEOUT,
                  {"receive 2 from rank 0 on rank 1 timed out", "has called rondo_send 1 times to rank 1",
                   "is in no operation"});
}

TEST_CASE("device messages: what a rank sent before it left is received, then its end is told") {
  DeviceRanks group(2, on_executor());
  const DeviceBuffer sent(group.world, bytes_of(whole_numbers(3, 1000)));
  const DeviceBuffer received(group.world, bytes_of(std::vector<float>(1000, -1)));
  REQUIRE(rondo_send(sent.pointer(), 1000, RONDO_FLOAT32, 1, group.ranks[0], group.stream(0)) == RONDO_OK);
  REQUIRE(rondo_comm_destroy(group.ranks[0]) == RONDO_OK);
  group.ranks.forget(0);
  for (int call = 0; call < 2; ++call)
    REQUIRE(rondo_recv(received.pointer(), 1000, RONDO_FLOAT32, 0, group.ranks[1], group.stream(1)) == RONDO_OK);
  check_failure(group.ranks[1], RONDO_ERROR_REMOTE,
                {"has destroyed its communicator", "rank 1 waits in receive 2 from rank 0"});
  CHECK_VALUES(received.read(), whole_numbers(3, 1000));
}

TEST_CASE("device messages: a message that nobody receives is named at finalize") {
  DeviceRanks group(2, on_executor());
  const DeviceBuffer buffer(group.world, std::vector<std::byte>(64));
  REQUIRE(rondo_send(buffer.pointer(), 8, RONDO_INT8, 1, group.ranks[0], group.stream(0)) == RONDO_OK);
  group.synchronize();
  const auto statuses = group.ranks.run([](int, rondo_comm_t comm) { return rondo_comm_finalize(comm); });
  for (int rank = 0; rank < 2; ++rank) {
    CHECK(statuses[static_cast<size_t>(rank)] == RONDO_ERROR_MISMATCH);
    check_failure(group.ranks[rank], RONDO_ERROR_MISMATCH,
                  {"sent 1 messages to rank 1, which received 0 of them"});
  }
}

TEST_CASE("device messages: a captured group is replayed") {
  DeviceRanks group(2, on_executor());
  const Exchange exchange(group, {0, 20'000, 3});
  std::vector<rondo::cuda::GraphExec> graphs;
  for (int rank = 0; rank < 2; ++rank)
    graphs.push_back(captured(group.world_of(rank), group.stream(rank),
                              [&] { CHECK(exchange.call(rank, group.ranks[rank]) == RONDO_OK); }));
  for (int replay = 0; replay < 5; ++replay) {
    for (int rank = 0; rank < 2; ++rank) group.launch(graphs[static_cast<size_t>(rank)], rank);
    if (replay == 2)  // ordinary calls between two replays
      CHECK(all_ok(call_each(group.ranks, [&](int rank, rondo_comm_t comm) { return exchange.call(rank, comm); })));
  }
  group.complete();
  exchange.check();
  for (const DeviceBuffer &buffer : exchange.received)
    buffer.write(std::vector<std::byte>(buffer.read().size(), std::byte{1}));
  for (int rank = 0; rank < 2; ++rank) group.launch(graphs[static_cast<size_t>(rank)], rank);
  group.complete();
  exchange.check();
  CHECK(all_ok(group.ranks.run([](int, rondo_comm_t comm) { return rondo_comm_finalize(comm); })));
}

TEST_CASE("device messages: captured blocks and messages among calls yield what they must at each replay") {
  constexpr size_t count = 3'000;
  DeviceRanks group(3, on_executor());
  const Exchange exchange(group, {count, 2});
  std::vector<DeviceBuffer> from, to;
  std::vector<rondo::cuda::GraphExec> graphs;
  for (int rank = 0; rank < 3; ++rank) {
    from.emplace_back(group.world, bytes_of(whole_numbers(static_cast<uint64_t>(rank), 3 * count)));
    to.emplace_back(group.world, bytes_of(std::vector<float>(3 * count, -1)));
  }
  const auto call = [&](int rank, rondo_comm_t comm) {
    const auto own = static_cast<size_t>(rank);
    const auto status = rondo_all_to_all(from[own].pointer(), to[own].pointer(), count, RONDO_FLOAT32, comm,
                                         group.stream(rank));
    return status == RONDO_OK ? exchange.call(rank, comm) : status;
  };
  for (int rank = 0; rank < 3; ++rank)
    graphs.push_back(captured(group.world_of(rank), group.stream(rank),
                              [&] { CHECK(call(rank, group.ranks[rank]) == RONDO_OK); }));
  for (int replay = 0; replay < 4; ++replay) {
    for (const DeviceBuffer &buffer : to) buffer.write(bytes_of(std::vector<float>(3 * count, -1)));
    if (replay == 2) CHECK(all_ok(call_each(group.ranks, call)));
    for (int rank = 0; rank < 3; ++rank) group.launch(graphs[static_cast<size_t>(rank)], rank);
    group.complete();
    exchange.check();
    for (size_t rank = 0; rank < 3; ++rank) {
      const auto got = values_of<float>(to[rank].read());
      for (size_t peer = 0; peer < 3; ++peer) {
        const auto sent = whole_numbers(peer, 3 * count);
        const auto at = [&](const auto &values, size_t block) {
          const auto begin = values.begin() + static_cast<std::ptrdiff_t>(block * count);
          return std::vector<float>(begin, begin + count);
        };
        CHECK_VALUES(at(got, peer), at(sent, rank));
      }
    }
  }
  CHECK(all_ok(group.ranks.run([](int, rondo_comm_t comm) { return rondo_comm_finalize(comm); })));
}

TEST_CASE("device messages: a replay without a counterpart ends with the timeout") {
  rondo_config_t config = on_executor();
  config.timeout_ms = 500;
  DeviceRanks group(2, config);
  const Exchange exchange(group, {10});
  const auto graph = captured(group.world, group.stream(0),
                              [&] { CHECK(exchange.call(0, group.ranks[0]) == RONDO_OK); });
  group.launch(graph, 0);
  for (int rank = 0; rank < 2; ++rank)
    check_failure(group.ranks[rank], RONDO_ERROR_TIMEOUT, {"a replayed graph on rank 0 timed out"});
  group.launch(graph, 0);  // this replay ends, too
  group.synchronize();
}

// This case needs SOFT_CUDA_FAULTS=cuMemcpyAsync#NUMBER=1 for one of the copies of a message.
TEST_CASE("device messages: an error of a copy is told to both ranks", "[.][copy fault]") {
  DeviceRanks group(2, on_executor());
  const Exchange exchange(group, {1000});
  static_cast<void>(call_each(group.ranks, [&](int rank, rondo_comm_t comm) { return exchange.call(rank, comm); }));
  for (int rank = 0; rank < 2; ++rank) {
    const rondo_error_t error = await_failure(group.ranks[rank]);
    CAPTURE(error.message);
    CHECK(std::string(error.message).find("CUDA_ERROR_INVALID_VALUE") != std::string::npos);
  }
  group.synchronize();
}

TEST_CASE("device messages: ranks on two devices exchange") {
  if (!has_two_devices("messages between devices")) return;
  rondo_config_t config = on_executor();
  std::vector<rondo_config_t> configs(4, config);
  for (size_t rank = 0; rank < 4; ++rank) configs[rank].device = static_cast<int>(rank % 2);
  DeviceRanks group(configs);
  const Exchange exchange(group, {1, 70'000});
  std::vector<DeviceBuffer> sums;
  for (int rank = 0; rank < 4; ++rank)
    sums.emplace_back(group.world_of(rank), bytes_of(whole_numbers(static_cast<uint64_t>(rank), 5'000)));
  CHECK(all_ok(call_each(group.ranks, [&](int rank, rondo_comm_t comm) {
    void *const sum = sums[static_cast<size_t>(rank)].pointer();  // collectives have other links than messages
    const auto status = rondo_all_reduce(sum, sum, 5'000, RONDO_FLOAT32, RONDO_SUM, comm, group.stream(rank));
    return status == RONDO_OK ? exchange.call(rank, comm) : status;
  })));
  group.complete();
  exchange.check();
  for (const DeviceBuffer &sum : sums) CHECK_VALUES(sum.read(), sum_over_ranks(0, 4, 5'000));
}

TEST_CASE("device blocks: counts of two ranks that differ are named on both") {
  for (const size_t expected : {size_t{96}, size_t{0}}) {
    DeviceRanks group(2, on_executor());
    std::vector<DeviceBuffer> buffers;
    for (int buffer = 0; buffer < 4; ++buffer) buffers.emplace_back(group.world, std::vector<std::byte>(4096));
    CHECK(all_ok(call_each(group.ranks, [&](int rank, rondo_comm_t comm) {
      const size_t to[] = {8, rank == 0 ? 100u : 8u}, from[] = {rank == 0 ? 8u : expected, 8};
      const auto own = static_cast<size_t>(rank);
      return rondo_all_to_all_v(buffers[2 * own].pointer(), to, nullptr, buffers[2 * own + 1].pointer(), from, nullptr,
                                RONDO_FLOAT32, comm, group.stream(rank));
    })));
    const std::string sizes = "rank 0 sends rank 1 100 elements, rank 1 expects " + std::to_string(expected);
    for (int rank = 0; rank < 2; ++rank) check_failure(group.ranks[rank], RONDO_ERROR_MISMATCH, {"operation 1", sizes});
  }
}

TEST_CASE("device blocks: ranks that disagree on the call are told, with both calls") {
  DeviceRanks group(2, on_executor());
  const DeviceBuffer send(group.world, std::vector<std::byte>(4096)), recv(group.world, std::vector<std::byte>(4096));
  CHECK(rondo_all_to_all(send.pointer(), recv.pointer(), 8, RONDO_FLOAT32, group.ranks[0], group.stream(0)) ==
        RONDO_OK);
  CHECK(rondo_gather(send.pointer(), recv.pointer(), 8, RONDO_FLOAT32, 0, group.ranks[1], group.stream(1)) == RONDO_OK);
  for (int rank = 0; rank < 2; ++rank)
    check_failure(group.ranks[rank], RONDO_ERROR_MISMATCH, {"all_to_all of 8 float32", "gather of 8 float32"});
}
