// SPDX-License-Identifier: Apache-2.0
// These tests execute the builders' schedules in random interleavings. verifier_test.cpp proves the schedules.
#include "src/plan/schedule.h"
#include "tests/catch.h"
#include "tests/unit/plan_world.h"

using namespace rondo;
using namespace rondo::test;

namespace {

/// Tries every collective of `algorithm` with `rank_count` ranks. A seed draws sizes, roots and placement.
void try_by_execution(const Algorithm &algorithm, uint32_t rank_count, Random &random) {
  for (const rondo_collective_t collective : collectives_of(algorithm)) {
    Choice choice;
    choice.algorithm = algorithm.id;
    choice.collective = collective;
    choice.rank_count = rank_count;
    choice.root = between(random, 0, rank_count - 1);
    choice.channel = between(random, 0, 1);
    choice.in_place = between(random, 0, 2);
    choice.slot_count = between(random, 2, 4);
    choice.slot_elements = between(random, 1, 3);
    choice.chunk_elements = between(random, 1, choice.slot_elements * (choice.slot_count - 1));
    choice.element_count = between(random, 0, 3 * choice.chunk_elements * rank_count + 1);
    Operation operation;
    make_operation(operation, choice);
    if (between(random, 0, 1) == 1) operation.by_reference = safe_references(choice, operation);
    INFO(to_string(choice));
    const std::string fault = run_numbers(operation, random);
    REQUIRE(fault == "");
  }
}

}  // namespace

TEST_CASE("builders: executed in random order, every algorithm gives the right result for 1 to 16 ranks") {
  const uint64_t seed = seed_from_environment();
  CAPTURE(seed);
  Random random(seed);
  for (const Algorithm &algorithm : algorithms())
    for (uint32_t rank_count = 1; rank_count <= 16; ++rank_count)
      for (int round = 0; round < 2; ++round) try_by_execution(algorithm, rank_count, random);
}

TEST_CASE("build_schedule: refuses what an algorithm cannot do, and says what it can") {
  ScheduleArgs args;
  args.rank_count = 1025;
  CHECK(build_schedule(RONDO_ALGORITHM_ONE_SHOT, args).error().message ==
        "algorithm one_shot is for 1 to 1024 ranks, not 1025");
  args.rank_count = 255;
  CHECK(build_schedule(RONDO_ALGORITHM_ONE_SHOT, args).ok());
  args.rank = 255;
  CHECK(build_schedule(RONDO_ALGORITHM_RING, args).error().message == "rank 255 is not one of 255");
  args.rank = 0;
  args.collective = RONDO_ALL_GATHER;
  CHECK(build_schedule(RONDO_ALGORITHM_TREE, args).error().message ==
        "algorithm tree has no all_gather; choose another, or auto");
  args.collective = RONDO_BROADCAST;
  args.root = 255;
  CHECK(build_schedule(RONDO_ALGORITHM_TREE, args).error().message == "root 255 is not one of 255");
  CHECK_FALSE(build_schedule(RONDO_ALGORITHM_AUTO, args).ok());
  CHECK(find_algorithm(RONDO_ALGORITHM_AUTO) == nullptr);
}
