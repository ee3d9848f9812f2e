// SPDX-License-Identifier: Apache-2.0
// These tests compare schedules with the documented order of rounding. Elements are expressions that record each step.
#include "tests/catch.h"
#include "tests/reduction_order.h"
#include "tests/unit/plan_world.h"

using namespace rondo;
using namespace rondo::test;

namespace {

/// The expression from which an element was computed. While a step reduces, its operands are listed; end_step() closes
/// the list.
struct Expression {
  std::string text = "rubbish";
  std::vector<std::string> open;

  Expression operator+(const Expression &other) const {
    Expression sum{"", open};
    if (sum.open.empty()) sum.open.push_back(text);
    sum.open.push_back(other.text);
    return sum;
  }
  [[nodiscard]] Expression finish() const { return *this; }
  [[nodiscard]] Expression end_step() const { return open.empty() ? *this : Expression{step_text(open), {}}; }
};

}  // namespace

TEST_CASE("order of rounding: every schedule reduces as docs/schedules.md says, on every rank") {
  const uint64_t seed = seed_from_environment();
  CAPTURE(seed);
  Random random(seed);
  for (const Algorithm &algorithm : algorithms())
    for (const rondo_collective_t collective : {RONDO_ALL_REDUCE, RONDO_REDUCE_SCATTER, RONDO_REDUCE})
      for (uint32_t rank_count = 1; rank_count <= 17 && algorithm.supports(collective); ++rank_count)
        for (uint32_t channel = 0; channel < 2; ++channel) {
          Choice choice;
          choice.algorithm = algorithm.id;
          choice.collective = collective;
          choice.rank_count = rank_count;
          choice.root = between(random, 0, rank_count - 1);
          choice.channel = channel;
          choice.in_place = between(random, 0, 2);
          choice.element_count = 2 * rank_count;
          choice.even_blocks = true;
          choice.chunk_elements = 2;
          choice.slot_elements = 2;
          Operation operation;
          make_operation(operation, choice);
          REQUIRE(operation.schedules[0].chunk_count == reduce_chunk_count(algorithm.id, collective, rank_count));
          World<Expression> world(operation,
                                  [](uint32_t rank, uint64_t) { return Expression{std::to_string(rank), {}}; });
          INFO(to_string(choice));
          REQUIRE(world.run(random));
          for (uint64_t tile = 0; tile < operation.partition.tile_count; ++tile)
            for (uint32_t chunk = 0; chunk < operation.partition.chunk_count; ++chunk) {
              const Range range = operation.partition.range(tile, chunk);
              const std::string expected =
                  to_string(reduction_order(algorithm.id, collective, rank_count, choice.root, channel, chunk));
              for (uint32_t rank = 0; rank < rank_count; ++rank) {
                const Range held = held_by(operation, rank, true);
                if (range.begin < held.begin || range.begin >= held.begin + held.count) continue;
                for (uint64_t i = range.begin; i < range.begin + range.count; ++i)
                  REQUIRE(world.recv(rank)[i].text == expected);
              }
            }
        }
}
