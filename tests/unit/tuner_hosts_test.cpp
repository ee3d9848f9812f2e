// SPDX-License-Identifier: Apache-2.0
// What the tuner chooses where ranks are on several hosts.
#include <string>
#include <vector>

#include "tests/unit/tuner_input.h"

using namespace rondo;
using namespace rondo_test;

TEST_CASE("tuner: between two ranks on two hosts every size goes in one hop, in chunks of several slots") {
  for (const uint64_t bytes : sizes) {
    TunerInput input = with(RONDO_ALL_REDUCE, 2, bytes);
    input.slot_bytes = 131072;
    input.several_hosts = true;
    const PlanChoice choice = choose_plan(input, registry).value();
    CHECK(choice.algorithm == RONDO_ALGORITHM_ONE_SHOT);
    CHECK(choice.chunk_bytes > input.slot_bytes);
    input.several_hosts = false;
    if (bytes > 32768) CHECK(choose_plan(input, registry).value().algorithm != RONDO_ALGORITHM_ONE_SHOT);
  }
}

TEST_CASE("tuner: between hosts of several ranks, large ones go by two channels of hierarchical") {
  TunerInput input = with(RONDO_ALL_REDUCE, 4, 1 << 20);
  input.several_hosts = input.shares_hosts = true;
  const PlanChoice choice = choose_plan(input).value();
  CHECK(choice.algorithm == RONDO_ALGORITHM_HIERARCHICAL);
  CHECK(choice.channels == 2);  // one chunk on its way is not enough
}

TEST_CASE("tuner: between hosts of several ranks, every collective crosses the network as seldom as it can") {
  for (const rondo_collective_t collective :
       {RONDO_ALL_REDUCE, RONDO_REDUCE_SCATTER, RONDO_ALL_GATHER, RONDO_BROADCAST, RONDO_REDUCE}) {
    TunerInput input = with(collective, 16, 1 << 20);
    input.several_hosts = input.shares_hosts = true;
    CHECK(choose_plan(input).value().algorithm == RONDO_ALGORITHM_HIERARCHICAL);
    input.bytes = 1024;
    const bool blocks = uses_blocks(collective);
    CHECK((choose_plan(input).value().algorithm == RONDO_ALGORITHM_HIERARCHICAL_TREE) == !blocks);
    input.shares_hosts = false;  // a rank on each
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
  input.several_hosts = input.shares_hosts = true;
  CHECK(choose_plan(input).value() == several);
}
