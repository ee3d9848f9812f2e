// SPDX-License-Identifier: Apache-2.0
// Tests the tuner's choices for ranks on several hosts.
#include <string>
#include <vector>

#include "tests/unit/tuner_input.h"
#include "transports/hosts/connect.h"

using namespace rondo;
using namespace rondo_test;

TEST_CASE("tuner: between two ranks on two hosts every size goes in one hop, in chunks of a large slot") {
  for (const uint64_t bytes : sizes) {
    TunerInput input = with(RONDO_ALL_REDUCE, 2, bytes);
    input.slot_bytes = hosts::choose_slots({2, 1, 1}, 2, 0, 0).slot_bytes;
    input.host_count = 2;
    const PlanChoice choice = choose_plan(input, registry).value();
    CHECK(choice.algorithm == RONDO_ALGORITHM_ONE_SHOT);
    CHECK(choice.chunk_bytes == 512 << 10);
    CHECK(choice.chunk_bytes == input.slot_bytes);
    input.slot_bytes = 128 << 10;  // set by a user
    CHECK(choose_plan(input, registry).value().chunk_bytes == 256 << 10);
    input.host_count = 1;
    if (bytes > 32768) CHECK(choose_plan(input, registry).value().algorithm != RONDO_ALGORITHM_ONE_SHOT);
  }
}

TEST_CASE("tuner: between hosts of several ranks, large ones go by two channels of hierarchical") {
  TunerInput input = with(RONDO_ALL_REDUCE, 4, 1 << 20);
  input.host_count = 2;
  const PlanChoice choice = choose_plan(input).value();
  CHECK(choice.algorithm == RONDO_ALGORITHM_HIERARCHICAL);
  CHECK(choice.channels == 2);  // one chunk in flight is not enough
}

TEST_CASE("tuner: between hosts of several ranks, every collective crosses the network as seldom as it can") {
  for (const rondo_collective_t collective :
       {RONDO_ALL_REDUCE, RONDO_REDUCE_SCATTER, RONDO_ALL_GATHER, RONDO_BROADCAST, RONDO_REDUCE}) {
    TunerInput input = with(collective, 16, 1 << 20);
    input.host_count = 2;
    CHECK(choose_plan(input).value().algorithm == RONDO_ALGORITHM_HIERARCHICAL);
    input.bytes = 1024;
    const bool blocks = uses_blocks(collective);
    CHECK((choose_plan(input).value().algorithm == RONDO_ALGORITHM_HIERARCHICAL_TREE) == !blocks);
    input.host_count = 16;  // a rank on each
    CHECK(choose_plan(input).value().algorithm != RONDO_ALGORITHM_HIERARCHICAL_TREE);
  }
}

TEST_CASE("tuner: rows that were measured on one host do not count among several, nor the other way round") {
  const PlanChoice one{RONDO_ALGORITHM_TREE, RONDO_PROTOCOL_SIMPLE, 1, 4096, RONDO_KERNEL_INTERPRETER};
  const PlanChoice several{RONDO_ALGORITHM_RING, RONDO_PROTOCOL_SIMPLE, 1, 8192, RONDO_KERNEL_INTERPRETER};
  const auto table = TuningTable::make({{RONDO_ALL_REDUCE, 4, false, TuningRow::any_bytes, one},
                                        {RONDO_ALL_REDUCE, 4, false, TuningRow::any_bytes, several, true}});
  REQUIRE(table.ok());
  TunerInput input = with(RONDO_ALL_REDUCE, 4, 1 << 20);
  input.table = &table.value();
  CHECK(choose_plan(input).value() == one);
  input.host_count = 2;
  CHECK(choose_plan(input).value() == several);
}

TEST_CASE("tuner: between many hosts, the fewest hops are worth more up to a size that grows with the hosts") {
  struct Row {
    rondo_collective_t collective;
    uint32_t rank_count;
    uint32_t host_count;
    uint64_t fewest_hops_bytes_max;
    rondo_algorithm_t fewest_hops;
    rondo_algorithm_t fewest_bytes;
  };
  constexpr uint64_t KiB = 1024, MiB = 1024 * KiB;
  constexpr auto leaders = RONDO_ALGORITHM_HIERARCHICAL_TREE, spread = RONDO_ALGORITHM_HIERARCHICAL;
  const Row rows[] = {
      {RONDO_ALL_REDUCE, 64, 8, 8 * KiB, leaders, spread},
      {RONDO_ALL_REDUCE, 128, 16, 256 * KiB, leaders, spread},
      {RONDO_ALL_REDUCE, 120, 31, 256 * KiB, leaders, spread},  // rounded down
      {RONDO_ALL_REDUCE, 512, 64, 4 * MiB, leaders, spread},
      {RONDO_ALL_REDUCE, 2048, 1024, 128 * MiB, leaders, spread},
      {RONDO_BROADCAST, 32, 4, 128 * KiB, leaders, spread},
      {RONDO_REDUCE, 32, 4, 512 * KiB, leaders, spread},
      {RONDO_REDUCE, 4096, 512, 512 * MiB, leaders, spread},
      {RONDO_ALL_REDUCE, 17, 17, 1 * KiB, RONDO_ALGORITHM_ONE_SHOT, RONDO_ALGORITHM_TWO_SHOT},
      {RONDO_ALL_REDUCE, 32, 32, 8 * MiB, RONDO_ALGORITHM_TWO_SHOT, RONDO_ALGORITHM_RING},
      {RONDO_ALL_REDUCE, 1024, 1024, 256 * MiB, RONDO_ALGORITHM_TREE, RONDO_ALGORITHM_RING},
      {RONDO_BROADCAST, 256, 256, UINT64_MAX, RONDO_ALGORITHM_TREE, RONDO_ALGORITHM_TREE},
  };
  for (const Row &row : rows) {
    CAPTURE(rondo_collective_string(row.collective), row.rank_count, row.host_count);
    TunerInput input = with(row.collective, row.rank_count, row.fewest_hops_bytes_max);
    input.host_count = row.host_count;
    CHECK(choose_plan(input).value().algorithm == row.fewest_hops);
    if (row.fewest_hops_bytes_max == UINT64_MAX) continue;
    input.bytes = 8;
    const bool all_pairs = row.fewest_hops == RONDO_ALGORITHM_TWO_SHOT;
    CHECK(choose_plan(input).value().algorithm == (all_pairs ? RONDO_ALGORITHM_ONE_SHOT : row.fewest_hops));
    input.bytes = row.fewest_hops_bytes_max;
    ++input.bytes;
    CHECK(choose_plan(input).value().algorithm == row.fewest_bytes);
  }
}
