// SPDX-License-Identifier: Apache-2.0
// These tests run the verifier on the schedules of every builder, and on schedules with known faults.
#include <cstdio>
#include <functional>
#include <utility>
#include <vector>

#include "src/plan/build.h"
#include "src/plan/schedule.h"
#include "src/plan/verify/verifier.h"
#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/unit/plan_world.h"

using namespace rondo;
using namespace rondo::test;

namespace {

std::string verdict(const Choice &choice) {
  Operation operation;
  make_operation(operation, choice);
  const auto violation = verify_operation(operation, safe_references(choice, operation));
  return violation ? to_string(*violation) : "";
}

/// Returns a choice with `tiles` full tiles and a short one. In a full tile each chunk has `slots` slots. In the short
/// tile, a slot may be short, and chunks may be empty.
Choice choice_of(const Algorithm &algorithm, rondo_collective_t collective, uint32_t rank_count, uint32_t slot_count,
                 uint32_t slots, uint64_t tiles) {
  Choice choice;
  choice.algorithm = algorithm.id;
  choice.collective = collective;
  choice.rank_count = rank_count;
  choice.slot_count = slot_count;
  choice.slot_elements = 3;
  choice.chunk_elements = 3 * slots;
  const auto schedule = build_schedule(algorithm.id, {.collective = collective, .rank_count = rank_count});
  choice.element_count = tiles * choice.chunk_elements * schedule.value().chunk_count + 7;
  return choice;
}

}  // namespace

TEST_CASE("verifier: proves every builder for 1 to 64 ranks, in and out of place, with several tiles") {
  const uint32_t ranks_max = rondo_test::sanitized() ? 24 : 64;
  if (rondo_test::sanitized()) std::puts("skipped: 25 to 64 ranks: take a minute under a sanitizer; done without one");
  uint32_t proven = 0;
  auto share = rondo_test::GateShare::in_every_build("schedules of more than 16 ranks");
  for (const Algorithm &algorithm : algorithms())
    for (const rondo_collective_t collective : collectives_of(algorithm)) {
      share.skip();  // so that the next collective has other numbers of ranks
      for (uint32_t rank_count = 1; rank_count <= ranks_max; ++rank_count) {
        if (rank_count > 16 && !share.has_next()) continue;
        for (uint32_t in_place = 0; in_place < 3; ++in_place) {
          const uint32_t slot_count = 2 + in_place % 2;
          Choice choice = choice_of(algorithm, collective, rank_count, slot_count, slots_per_chunk_max(slot_count), 2);
          choice.in_place = in_place;
          choice.channel = (rank_count + in_place / 2) % 2;
          choice.root = (rank_count * 5 + in_place) % rank_count;
          INFO(to_string(choice));
          REQUIRE(verdict(choice) == "");
          ++proven;
        }
      }
    }
  std::printf("verifier: %u schedules of 1 to %u ranks proven\n", proven, ranks_max);
}

TEST_CASE("verifier: proves every root, both trees and every small size for up to 9 ranks") {
  auto share = rondo_test::GateShare::in_every_build("schedules of up to 9 ranks with each root and small size");
  for (const Algorithm &algorithm : algorithms())
    for (const rondo_collective_t collective : collectives_of(algorithm))
      for (uint32_t rank_count = 1; rank_count <= 9; ++rank_count)
        for (uint32_t root = 0; root < rank_count; ++root) {
          share.skip();  // so that the next root has each size with another channel
          for (uint32_t channel = 0; channel < 2; ++channel)
            for (const uint64_t element_count : {0, 1, 2, 5, 8, 29, 53}) {
              if (!share.has_next()) continue;
              Choice choice = choice_of(algorithm, collective, rank_count, 3, 2, 0);
              choice.root = root;
              choice.channel = channel;
              choice.in_place = (root + channel) % 3;
              choice.element_count = element_count;
              INFO(to_string(choice));
              REQUIRE(verdict(choice) == "");
            }
        }
}

TEST_CASE("verifier: proves samples up to 1,024 ranks within seconds") {
  std::vector<uint32_t> samples{100, 255, 257, 1024};
  if (rondo_test::sanitized()) {
    std::puts("skipped: more than 100 ranks: take minutes under a sanitizer; done without one");
    samples = {100};
  }
  auto share = rondo_test::GateShare::in_every_build("samples of many ranks");
  for (const Algorithm &algorithm : algorithms())
    for (const rondo_collective_t collective : collectives_of(algorithm))
      for (const uint32_t rank_count : samples) {
        if ((rank_count > 100 || samples.size() == 1) && !share.has_next()) continue;
        if (rank_count > algorithm.rank_count_max || collective == RONDO_BARRIER) continue;
        if (rank_count == 257 && algorithm.id == RONDO_ALGORITHM_RING) continue;
        // A byte cannot name 257 ranks. With 1,024 ranks, an algorithm with links between all ranks would take minutes.
        const bool links_to_all = algorithm.rank_count_max == 1024 || algorithm.id == RONDO_ALGORITHM_HIERARCHICAL;
        if (rank_count == 1024 && links_to_all) continue;
        Choice choice = choice_of(algorithm, collective, rank_count, 2, 1, 1);
        choice.in_place = rank_count % 3;
        choice.channel = rank_count % 2;
        choice.root = rank_count - 1;
        INFO(to_string(choice));
        REQUIRE(verdict(choice) == "");
      }
}

TEST_CASE("verifier: a ring needs two slots, and with one it deadlocks") {
  for (const rondo_collective_t collective : {RONDO_ALL_REDUCE, RONDO_REDUCE_SCATTER, RONDO_ALL_GATHER})
    for (const uint32_t rank_count : {3u, 4u, 17u}) {
      Choice choice = choice_of(*find_algorithm(RONDO_ALGORITHM_RING), collective, rank_count, 1, 1, 2);
      choice.even_blocks = true;  // an empty block would free a slot, and the ring would not deadlock
      INFO(to_string(choice));
      CHECK(verdict(choice).find("deadlock") != std::string::npos);
      choice.slot_count = 2;
      CHECK(verdict(choice) == "");
    }
}

TEST_CASE("slots_per_chunk_max: so many never deadlock, and one more does in a ring and a two-shot reduce") {
  auto share = rondo_test::GateShare::in_every_build("numbers of slots and ranks");
  for (const Algorithm &algorithm : algorithms())
    for (const rondo_collective_t collective : collectives_of(algorithm)) {
      bool some_deadlock = false;
      for (uint32_t slot_count = slot_count_min; slot_count <= 8; ++slot_count)
        for (uint32_t rank_count = 2; rank_count <= 12; ++rank_count) {
          if (!share.has_next()) continue;
          const uint32_t most = slots_per_chunk_max(slot_count);
          for (const uint32_t slots : {1u, (most + 1) / 2, most})
            REQUIRE(verdict(choice_of(algorithm, collective, rank_count, slot_count, slots, 3)) == "");
          Choice larger = choice_of(algorithm, collective, rank_count, slot_count, slot_count, 3);
          larger.even_blocks = true;
          const std::string more = verdict(larger);
          if (more != "") CHECK(more.find("deadlock") != std::string::npos);
          some_deadlock |= more != "";
        }
      const bool open_chain = collective == RONDO_BROADCAST || collective == RONDO_REDUCE;
      const bool ring = algorithm.id == RONDO_ALGORITHM_RING && !open_chain;
      const bool round_loop = algorithm.id == RONDO_ALGORITHM_TWO_SHOT && collective == RONDO_REDUCE;
      // On one host, hierarchical also sums in a ring.
      const bool inner_ring = algorithm.id == RONDO_ALGORITHM_HIERARCHICAL &&
                              (collective == RONDO_REDUCE_SCATTER || collective == RONDO_REDUCE);
      INFO(rondo_algorithm_string(algorithm.id) << " " << rondo_collective_string(collective));
      CHECK(some_deadlock == (ring || round_loop || inner_ring));
    }
}

TEST_CASE("verifier: a tree in one fused lane deadlocks when a chunk has more slots than a link, in two it runs") {
  Choice choice = choice_of(*find_algorithm(RONDO_ALGORITHM_TREE), RONDO_ALL_REDUCE, 7, 4, 9, 1);
  Operation operation;
  make_operation(operation, choice);
  CHECK_FALSE(verify_operation(operation));
  for (Schedule &schedule : operation.schedules) {
    schedule.lanes[0].insert(schedule.lanes[0].end(), schedule.lanes[1].begin(), schedule.lanes[1].end());
    schedule.lanes.pop_back();
  }
  const auto violation = verify_operation(operation);
  REQUIRE(violation);
  CHECK(violation->reason.find("deadlock") != std::string::npos);
  // A second lane is one repair. Another repair keeps the single lane: the top rank sends only in the second phase.
  for (Schedule &schedule : operation.schedules)
    if (schedule.lanes[0].size() == 1) {
      Step &up = schedule.lanes[0][0];
      Step down{.chunk = 0, .flags = step_acc | step_send, .send_link = {up.send_link[0], up.send_link[1]}};
      up.flags = static_cast<uint8_t>(up.flags & ~step_send);
      schedule.lanes[0].push_back(down);
    }
  CHECK_FALSE(verify_operation(operation));
}

TEST_CASE("verifier: payloads by reference are refuted exactly where the algorithm says that they are unsafe") {
  auto share = rondo_test::GateShare::in_every_build("numbers of ranks whose payloads are by reference");
  for (const Algorithm &algorithm : algorithms())
    for (const rondo_collective_t collective : collectives_of(algorithm)) {
      share.skip();  // so that the next collective has other numbers of ranks
      for (uint32_t rank_count = 2; rank_count <= 17; ++rank_count) {
        if (!share.has_next()) continue;
        for (const uint32_t in_place : {0u, 1u}) {
          Choice choice = choice_of(algorithm, collective, rank_count, 3, 2, 2);
          choice.in_place = in_place;
          choice.root = rank_count / 2;
          Operation operation;
          make_operation(operation, choice);
          for (uint32_t rank = 0; rank < rank_count; ++rank) {
            std::vector<bool> one(rank_count);
            one[rank] = true;
            const auto violation = verify_operation(operation, std::move(one));
            INFO(to_string(choice) << " by reference: rank " << rank);
            CHECK(!violation == safe_references(choice, operation)[rank]);
            if (violation) CHECK(violation->reason.find("in place") + violation->reason.find("needs") != 0);
          }
        }
      }
    }
}

TEST_CASE("verifier: names rank, lane, step and reason of what is wrong") {
  struct Case {
    std::function<void(Operation &)> spoil;
    std::string report;
  };
  const auto step = [](Operation &operation, uint32_t rank, uint32_t index) -> Step & {
    return operation.schedules[rank].lanes[0][index];
  };
  const std::vector<Case> cases = {
      {[&](Operation &o) { step(o, 2, 1).flags ^= step_src; },
       "rank 0, lane 0, step 3: finishes an incomplete reduction"},
      {[&](Operation &o) { step(o, 2, 4).flags ^= step_dst; }, "rank 2, lane 0, step 0: chunk 1 is never written"},
      {[&](Operation &o) { step(o, 2, 3).flags ^= step_finish; }, "leaves chunk"},
      {[&](Operation &o) { step(o, 1, 2).mean_shifts ^= 1; }, "rank 1, lane 0, step 2: scales the operands of a mean"},
      {[&](Operation &o) { step(o, 2, 2).chunk = 0; }, "expects chunk"},
      {[&](Operation &o) { step(o, 0, 1).chunk = 9; }, "rank 0, lane 0, step 1: chunk 9: no such chunk"},
      {[&](Operation &o) { step(o, 0, 1).recv_link[0] = 7; }, "rank 0, lane 0, step 1: no link 7"},
      {[&](Operation &o) { o.schedules[1].lanes[0].pop_back(); }, "does not receive"},
      {[&](Operation &o) { o.schedules[1].peers[0] = 4; }, "rank 1, lane 0, step 0: a link to rank 4: no such rank"},
      {[&](Operation &o) { o.partition.tile_count -= 1; }, "the chunks do not cover the channel's part exactly"},
      {[&](Operation &o) { o.partition.align_elements = 0; }, "the partition's numbers make no sense"},
      {[&](Operation &o) { o.partition.align_elements = 3; }, "the partition's numbers make no sense"},
      {[&](Operation &o) { o.slot_count = 1; }, "deadlock"},
  };
  for (const Case &wrong : cases) {
    Operation operation;
    make_operation(operation, choice_of(*find_algorithm(RONDO_ALGORITHM_RING), RONDO_ALL_REDUCE, 4, 2, 1, 2));
    REQUIRE_FALSE(verify_operation(operation));
    wrong.spoil(operation);
    const auto violation = verify_operation(operation);
    REQUIRE(violation);
    CHECK_THAT(to_string(*violation), Contains(wrong.report));
  }
}

TEST_CASE("verifier: an all_to_all in place sends a block by copy before it receives into its place") {
  Choice choice = choice_of(*find_algorithm(RONDO_ALGORITHM_ONE_SHOT), RONDO_ALL_TO_ALL, 4, 2, 1, 2);
  choice.in_place = 1;
  Operation operation;
  make_operation(operation, choice);
  CHECK_FALSE(verify_operation(operation));
  CHECK_FALSE(verify_operation(operation, safe_references(choice, operation)));
  const auto by_reference = verify_operation(operation, {false, false, true, false});
  REQUIRE(by_reference);
  CHECK(to_string(*by_reference) ==
        "rank 2, lane 0, step 1: overwrites a block that its lane has not sent by copy before");
  Lane &lane = operation.schedules[1].lanes[0];
  std::swap(lane[0], lane[1]);
  const auto receives_first = verify_operation(operation);
  REQUIRE(receives_first);
  CHECK(to_string(*receives_first) ==
        "rank 1, lane 0, step 0: overwrites a block that its lane has not sent by copy before");
}
