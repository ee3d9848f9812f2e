// SPDX-License-Identifier: Apache-2.0
// These tests check what errors, `rondo status` and statistics say about messages on devices.
#include <string>
#include <vector>

#include "tests/gpu/device_failures.h"
#include "tests/gpu/device_ranks.h"
#include "tests/gpu/message_exchange.h"
#include "tests/gpu/settings.h"
#include "tests/test_clock.h"

using namespace rondo_test;

namespace {

bool runs_collective(const rondo::RankNow &now) { return now.device_runs(rondo::DevicePlace::Kind::collective); }
bool has_completed_batch(const rondo::RankNow &now) { return now.rank.batches.completed == 1; }

}  // namespace

TEST_CASE("device messages: a peer whose device is in a collective, before its messages, is told as that") {
  if (rondo::test::skips_released_copies(by_copies(), "a peer in a collective by copies")) return;
  std::vector<rondo_config_t> configs(3, on_executor());
  configs[1].timeout_ms = 500;
  DeviceRanks group(configs);
  const DeviceBuffer buffer(group.world, std::vector<std::byte>(64));
  // Rank 0 needs rank 2, which does not call. Rank 1 needs a send that rank 0 has enqueued behind the broadcast.
  REQUIRE(rondo_broadcast(buffer.pointer(), buffer.pointer(), 1, RONDO_INT8, 2, group.ranks[0], group.stream(0)) ==
          RONDO_OK);
  REQUIRE(rondo_send(buffer.pointer(), 1, RONDO_INT8, 1, group.ranks[0], group.stream(0)) == RONDO_OK);
  await(0, runs_collective);
  REQUIRE(rondo_recv(buffer.pointer(), 1, RONDO_INT8, 0, group.ranks[1], group.stream(1)) == RONDO_OK);
  for (int rank = 0; rank < 3; ++rank)
    check_failure(group.ranks[rank], RONDO_ERROR_TIMEOUT,
                  {"receive 1 from rank 0 on rank 1 timed out", "has called rondo_send 1 times to rank 1",
                   "is in operation 1 (broadcast"});
  group.synchronize();
}

TEST_CASE("device messages: a collective that hangs before messages is the one that status tells") {
  if (rondo::test::skips_released_copies(by_copies(), "a collective by copies that hangs")) return;
  rondo_config_t config = on_executor();
  config.timeout_ms = 500;
  DeviceRanks group(3, config);
  const DeviceBuffer of_rank_0(group.world, std::vector<std::byte>(64)), of_rank_1(group.world, of_rank_0.read());
  {
    const HeldClock clock;  // no time passes until both devices are in the collective
    for (int rank = 0; rank < 2; ++rank) {
      const DeviceBuffer &buffer = rank == 0 ? of_rank_0 : of_rank_1;
      REQUIRE(rondo_all_reduce(buffer.pointer(), buffer.pointer(), 1, RONDO_INT8, RONDO_SUM, group.ranks[rank],
                               group.stream(rank)) == RONDO_OK);
      if (rank == 0)
        CHECK(rondo_send(buffer.pointer(), 1, RONDO_INT8, 1, group.ranks[0], group.stream(0)) == RONDO_OK);
      else
        CHECK(rondo_recv(buffer.pointer(), 1, RONDO_INT8, 0, group.ranks[1], group.stream(1)) == RONDO_OK);
      await(static_cast<size_t>(rank), runs_collective);
    }
  }
  for (int rank = 0; rank < 3; ++rank) check_failure(group.ranks[rank], RONDO_ERROR_TIMEOUT, {"operation 1", "rank 2"});
  group.synchronize();
  const auto wait = rondo::find_wait(look_at_own_ranks());
  REQUIRE(wait.has_value());
  CHECK(wait->operation == 1);
  CHECK(wait->waiting == std::vector<uint32_t>{0, 1});
  CHECK(wait->waited_for == std::vector<uint32_t>{2});
}

TEST_CASE("device messages: a captured message does not count, neither at the capture nor when it is replayed") {
  DeviceRanks group(2, on_executor());
  const Exchange exchange(group, {1000});
  std::vector<rondo::cuda::GraphExec> graphs;
  for (int rank = 0; rank < 2; ++rank)
    graphs.push_back(captured(group.world_of(rank), group.stream(rank),
                              [&] { CHECK(exchange.call(rank, group.ranks[rank]) == RONDO_OK); }));
  for (int rank = 0; rank < 2; ++rank) group.launch(graphs[static_cast<size_t>(rank)], rank);
  group.complete();
  for (int rank = 0; rank < 2; ++rank) {
    await(static_cast<size_t>(rank), has_completed_batch);  // the capture counts as a batch that is complete
    rondo_statistics_t statistics = RONDO_STATISTICS_INIT;
    REQUIRE(rondo_comm_statistics(group.ranks[rank], &statistics) == RONDO_OK);
    CHECK(statistics.collectives[RONDO_SEND].operations == 0);
    CHECK(statistics.collectives[RONDO_RECV].bytes == 0);
  }
}

TEST_CASE("device messages: a replay that meets a receive of no graph is told as a mistake of the program") {
  DeviceRanks group(2, on_executor());
  const DeviceBuffer sent(group.world, std::vector<std::byte>(64)), received(group.world, std::vector<std::byte>(64));
  const auto send = [&] {
    return rondo_send(sent.pointer(), 8, RONDO_INT8, 1, group.ranks[0], group.stream(0));
  };
  const auto graph = captured(group.world, group.stream(0), [&] { CHECK(send() == RONDO_OK); });
  for (int replay = 0; replay < 2; ++replay) group.launch(graph, 0);
  REQUIRE(send() == RONDO_OK);
  for (int call = 0; call < 2; ++call)
    REQUIRE(rondo_recv(received.pointer(), 8, RONDO_INT8, 0, group.ranks[1], group.stream(1)) == RONDO_OK);
  for (int rank = 0; rank < 2; ++rank)
    check_failure(group.ranks[rank], RONDO_ERROR_MISMATCH,
                  {"rank 1 receives message 2 from rank 0 as 8 bytes (int8)",
                   "capture both ends of a message or neither"});
  group.synchronize();
}
