// SPDX-License-Identifier: Apache-2.0
// The order in which a reduction is reduced, as docs/schedules.md says it; written from that page, not from the
// builders. tests/unit/plan_reduce_order_test.cpp compares it with the schedules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rondo/rondo.h"

namespace rondo::test {

/// A rank's operand, or a step: its operands are reduced from the left and rounded once. The first two commute.
struct Reduction {
  uint32_t rank = 0;           ///< where there are no operands
  std::vector<Reduction> operands;  ///< 2 or 3; with one rounding in all, one of each rank
};

/// Returns how element i of a chunk is reduced. `root` counts for reduce only, `channel` for the tree (even or odd).
/// `chunk` counts for the algorithms that have several chunks: ring, halving-doubling and hierarchical (on one host).
/// In a ring's reduce-scatter it is the block. The kernel load_store rounds
/// one_shot and two_shot once, at the end.
[[nodiscard]] Reduction reduction_order(rondo_algorithm_t algorithm, rondo_collective_t collective, uint32_t rank_count,
                              uint32_t root, uint32_t channel, uint32_t chunk,
                              rondo_kernel_t kernel = RONDO_KERNEL_INTERPRETER);

/// Returns how many chunks a tile has. An element's chunk follows from the partition (src/proto/partition.h).
[[nodiscard]] uint32_t reduce_chunk_count(rondo_algorithm_t algorithm, rondo_collective_t collective,
                                        uint32_t rank_count);

/// "(2 (0 1))"; the two operands that commute are sorted, so equal text is an equal result.
[[nodiscard]] std::string to_string(const Reduction &reduce);

/// The text of a step whose operands have these texts.
[[nodiscard]] std::string step_text(std::vector<std::string> operands);

/// Evaluates: `operand(rank)` gives values, `step(std::vector<T>)` reduces from the left and rounds once.
template <class Operand, class Step>
auto evaluate(const Reduction &reduce, const Operand &operand, const Step &step) -> decltype(operand(uint32_t{})) {
  if (reduce.operands.empty()) return operand(reduce.rank);
  std::vector<decltype(operand(uint32_t{}))> values;
  for (const Reduction &part : reduce.operands) values.push_back(evaluate(part, operand, step));
  return step(values);
}

}  // namespace rondo::test
