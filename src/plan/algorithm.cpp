// SPDX-License-Identifier: Apache-2.0
// This file is the registry of algorithms, with the checks that precede a builder.
#include "src/plan/schedule.h"

#include <array>
#include <string>

#include "src/plan/block_lanes.h"
#include "src/plan/build.h"

namespace rondo {
namespace {

bool always_safe(const ScheduleArgs &) { return true; }

/// Returns whether a one-shot may send payloads by reference. In place, an all-reduce overwrites this rank's operand
/// once the other operands have arrived, even if peers have not read it. So does an all-to-all. No other one-shot
/// overwrites what peers read. In other algorithms, a result arrives only after its operands were read.
bool one_shot_safe(const ScheduleArgs &args) {
  const bool overwrites = is_all_reduce(args.collective) || trades_blocks(traits_of(args.collective));
  return !args.in_place || args.rank_count == 1 || !overwrites;
}

constexpr uint32_t tree_rank_count_max = 1u << 24;

constexpr std::array registry{
    Algorithm{RONDO_ALGORITHM_RING, chunked_rank_count_max, ring_has, build_ring, always_safe},
    Algorithm{RONDO_ALGORITHM_TREE, tree_rank_count_max, tree_has, build_tree, always_safe},
    Algorithm{RONDO_ALGORITHM_HALVING_DOUBLING, chunked_rank_count_max, halving_doubling_has, build_halving_doubling,
              always_safe},
    Algorithm{RONDO_ALGORITHM_ONE_SHOT, all_links_rank_count_max, one_shot_has, build_one_shot, one_shot_safe},
    Algorithm{RONDO_ALGORITHM_TWO_SHOT, all_links_rank_count_max, two_shot_has, build_two_shot, always_safe},
    Algorithm{RONDO_ALGORITHM_HIERARCHICAL, chunked_rank_count_max, hierarchical_has, build_hierarchical, always_safe},
    Algorithm{RONDO_ALGORITHM_HIERARCHICAL_TREE, tree_rank_count_max, hierarchical_tree_has, build_hierarchical_tree,
              always_safe},
};

std::string algorithm_name(rondo_algorithm_t id) {
  const char *name = rondo_algorithm_string(id);
  return name != nullptr ? name : std::to_string(static_cast<int>(id));
}

}  // namespace

std::span<const Algorithm> algorithms() { return registry; }

const Algorithm *find_algorithm(rondo_algorithm_t id) {
  for (const Algorithm &algorithm : registry)
    if (algorithm.id == id) return &algorithm;
  return nullptr;
}

Result<Schedule> build_schedule(rondo_algorithm_t id, const ScheduleArgs &args) {
  const Algorithm *algorithm = find_algorithm(id);
  const std::string name = algorithm_name(id);
  if (algorithm == nullptr) return invalid_argument("no algorithm '" + name + "' to build a schedule with");
  if (!is_collective(args.collective))
    return invalid_argument("unknown collective " + std::to_string(static_cast<int>(args.collective)));
  if (!algorithm->supports(args.collective))
    return invalid_argument("algorithm " + name + " has no " + rondo_collective_string(args.collective) +
                            "; choose another, or auto");
  if (args.rank_count == 0 || args.rank_count > algorithm->rank_count_max)
    return invalid_argument("algorithm " + name + " is for 1 to " + std::to_string(algorithm->rank_count_max) +
                            " ranks, not " + std::to_string(args.rank_count));
  if (args.rank >= args.rank_count)
    return invalid_argument("rank " + std::to_string(args.rank) + " is not one of " + std::to_string(args.rank_count));
  if (has_root(args.collective) && args.root >= args.rank_count)
    return invalid_argument("root " + std::to_string(args.root) + " is not one of " + std::to_string(args.rank_count));
  return algorithm->build(args);
}

}  // namespace rondo
