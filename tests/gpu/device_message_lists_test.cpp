// SPDX-License-Identifier: Apache-2.0
// In these tests, groups on devices have more messages than the parameter of a kernel holds.
#include <cstdlib>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "tests/gpu/device_failures.h"
#include "tests/gpu/device_ranks.h"
#include "tests/gpu/message_exchange.h"
#include "tests/sanitized.h"
#include "tests/seconds.h"
#include "tests/test_clock.h"

using namespace rondo_test;

namespace {

/// With the kernel executor, the lists of 21 groups fill the memory, so the next one waits.
bool has_filled_memory(const rondo::RankNow &now) { return now.rank.batches.entered >= 22; }

}  // namespace

TEST_CASE("device messages: more messages in a group than a kernel's parameter holds") {
  DeviceRanks group(2, on_executor());
  const Exchange exchange(group, std::vector<size_t>(150, 33));
  for (int round = 0; round < 24; ++round)  // all lists together exceed the memory for lists
    CHECK(all_ok(call_each(group.ranks, [&](int rank, rondo_comm_t comm) { return exchange.call(rank, comm); })));
  group.complete();
  exchange.check();
}

TEST_CASE("device messages: calls whose lists fill the memory wait for a peer that comes late") {
  if (!has_turn(0, "cases with long lists")) return;
  constexpr int round_count = 24;
  DeviceRanks group(2, on_executor());
  const Exchange exchange(group, std::vector<size_t>(150, 33));
  const auto call_all = [&](int rank) {
    for (int round = 0; round < round_count; ++round)
      if (const auto status = exchange.call(rank, group.ranks[rank]); status != RONDO_OK) return status;
    return RONDO_OK;
  };
  std::optional<HeldClock> clock(std::in_place);
  auto early = std::async(std::launch::async, call_all, 0);
  await(0, has_filled_memory);
  for (int step = 0; step < 10; ++step) {
    clock->advance(second_ns);
    clock->await_reads(100);
  }
  clock.reset();
  CHECK(call_all(1) == RONDO_OK);
  CHECK(early.get() == RONDO_OK);
  group.complete();
  exchange.check();
}

TEST_CASE("device messages: however many groups a program captures, calls have memory for their lists") {
  DeviceRanks group(2, on_executor());
  const Exchange exchange(group, std::vector<size_t>(150, 33));
  const auto call = [&](int rank, rondo_comm_t comm) { return exchange.call(rank, comm); };
  std::vector<std::vector<rondo::cuda::GraphExec>> graphs(2);
  for (int capture = 0; capture < 30; ++capture)  // all lists together exceed the memory for lists
    for (int rank = 0; rank < 2; ++rank)
      graphs[static_cast<size_t>(rank)].push_back(
          captured(group.world_of(rank), group.stream(rank),
                   [&] { CHECK(call(rank, group.ranks[rank]) == RONDO_OK); }));
  CHECK(all_ok(call_each(group.ranks, call)));
  for (const size_t launched : {size_t{0}, size_t{29}})
    for (int rank = 0; rank < 2; ++rank) group.launch(graphs[static_cast<size_t>(rank)][launched], rank);
  CHECK(all_ok(call_each(group.ranks, call)));
  group.complete();
  exchange.check();
}

TEST_CASE("device messages: a group with too many messages for a device is refused, and changes nothing") {
  if (!has_turn(1, "cases with long lists")) return;
  constexpr int most = 13'107;
  DeviceRanks group(2, on_executor());
  const auto call = [&](int count, int rank) {
    if (rondo_group_begin() != RONDO_OK) return RONDO_ERROR_INTERNAL;
    for (int each = 0; each < count; ++each) {
      if (rank == 0) static_cast<void>(rondo_send(nullptr, 0, RONDO_INT8, 1, group.ranks[0], group.stream(0)));
      else static_cast<void>(rondo_recv(nullptr, 0, RONDO_INT8, 0, group.ranks[1], group.stream(1)));
    }
    return rondo_group_end();
  };
  if (!by_copies()) {
    CHECK(call(most + 1, 0) == RONDO_ERROR_INVALID_USAGE);
    check_message({"13108 messages", "at most 13107 parts", "divide the group"});
  }
  for (int rank = 0; rank < 2; ++rank) CHECK(call(most, rank) == RONDO_OK);
  group.complete();
  CHECK(all_ok(group.ranks.run([](int, rondo_comm_t comm) { return rondo_comm_finalize(comm); })));
}
