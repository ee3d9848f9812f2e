// SPDX-License-Identifier: Apache-2.0
// Mutants are schedules with one change each. Runs in random orders with numbers (plan_world.h) decide whether the
// change matters. If it does, the verifier must refuse the mutant.
#include <algorithm>
#include <cstdio>
#include <map>

#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/unit/plan_world.h"

using namespace rondo;
using namespace rondo::test;

namespace {

constexpr int runs_per_mutant = 24;

Choice random_choice(Random &random) {
  Choice choice;
  const Algorithm *algorithm = nullptr;
  do {
    algorithm = &algorithms()[between(random, 0, algorithms().size() - 1)];
    const auto known = collectives_of(*algorithm);
    choice.collective = known[between(random, 0, known.size() - 1)];
  } while (choice.collective == RONDO_BARRIER);
  choice.algorithm = algorithm->id;
  choice.rank_count = between(random, 2, 6);
  choice.root = between(random, 0, choice.rank_count - 1);
  choice.channel = between(random, 0, 1);
  choice.in_place = between(random, 0, 2);
  choice.slot_count = between(random, 2, 3);
  choice.chunk_elements = choice.slot_count - 1;
  choice.even_blocks = true;
  choice.element_count = 3 * choice.rank_count * choice.chunk_elements;
  return choice;
}

LinkIndex other_link(const Schedule &schedule, LinkIndex link, Random &random) {
  return static_cast<LinkIndex>((link + between(random, 1, std::max<size_t>(schedule.peers.size(), 2))) %
                              (schedule.peers.size() + 1));
}

/// Makes one change at a random step. Returns its name.
const char *mutate(Operation &operation, Random &random) {
  Schedule &schedule = operation.schedules[between(random, 0, operation.rank_count - 1)];
  Lane &lane = schedule.lanes[between(random, 0, schedule.lanes.size() - 1)];
  const uint32_t kind = between(random, 0, 7);
  if (kind == 0) {
    --operation.slot_count;
    return "one slot too few";
  }
  if (lane.empty()) return "nothing";
  const uint32_t index = between(random, 0, lane.size() - 1), other = between(random, 0, lane.size() - 1);
  Step &step = lane[index];
  switch (kind) {
    case 1: lane.erase(lane.begin() + index); return "dropped";
    case 2: lane.insert(lane.begin() + other, Step(step)); return "doubled";
    case 3: std::swap(step, lane[other]); return "reordered";
    case 4: step.chunk = static_cast<uint16_t>(between(random, 0, schedule.chunk_count)); return "chunk";
    case 5: step.flags = static_cast<uint8_t>(step.flags ^ (1u << between(random, 0, 5))); return "flag";
    case 6: step.recv_link[0] = other_link(schedule, step.recv_link[0], random); return "recv link";
    default: step.send_link[0] = other_link(schedule, step.send_link[0], random); return "send link";
  }
}

bool changes_meaning(const Operation &operation, Random &random) {
  for (int run = 0; run < runs_per_mutant; ++run)
    if (run_numbers(operation, random) != "") return true;
  return false;
}

struct Score {
  uint32_t matters = 0, caught = 0, harmless = 0, harmless_refused = 0;
};

}  // namespace

TEST_CASE("verifier: of mutants that change the meaning it catches at least 95 in 100") {
  const uint64_t seed = seed_from_environment();
  CAPTURE(seed);
  Random random(seed);
  std::map<std::string, Score> scores;
  Score total;
  const uint64_t wanted = rondo_test::sanitized() ? rondo_test::gate_count(1000) : 1000;
  for (uint32_t tried = 0; total.matters < wanted && tried < 20'000; ++tried) {
    const Choice choice = random_choice(random);
    Operation operation;
    make_operation(operation, choice);
    operation.by_reference = safe_references(choice, operation);
    const std::string kind = mutate(operation, random);
    const bool matters = changes_meaning(operation, random);
    const auto violation = verify_operation(operation, operation.by_reference);
    for (Score *score : {&scores[kind], &total}) {
      ++(matters ? score->matters : score->harmless);
      if (violation) ++(matters ? score->caught : score->harmless_refused);
    }
    if (matters && !violation) UNSCOPED_INFO("missed: " << kind << " in " << to_string(choice));
  }
  scores["all"] = total;
  std::printf("mutants (seed %llu): kind, matter, caught, harmless in all runs, of these refused\n",
              static_cast<unsigned long long>(seed));
  for (const auto &[kind, score] : scores)
    std::printf("  %-17s %5u %5u %5u %5u\n", kind.c_str(), score.matters, score.caught, score.harmless,
                score.harmless_refused);
  REQUIRE(total.matters >= wanted);
  CHECK(total.caught * 100 >= total.matters * 95);
}
