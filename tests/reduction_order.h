// SPDX-License-Identifier: Apache-2.0
// This file computes the order of a reduction as docs/schedules.md describes it. It was written from that page, and not
// from the builders. tests/unit/plan_reduce_order_test.cpp compares it with the schedules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rondo/rondo.h"

namespace rondo::test {

/// A rank's operand, or a step. The operands of a step are reduced from the left, and rounded once. The first two
/// commute.
struct Reduction {
  uint32_t rank = 0;           ///< used if there are no operands
  std::vector<Reduction> operands;  ///< 2 or 3, or, with a single rounding, one for each rank
};

/// Returns the order in which each element of a chunk is reduced. `root` matters only for reduce, and `channel` only
/// for the tree. `chunk` matters for ring, halving-doubling and hierarchical on one host, which have several chunks. In
/// a ring's reduce-scatter the chunk is the block. With load_store, one_shot and two_shot round once, at the end.
[[nodiscard]] Reduction reduction_order(rondo_algorithm_t algorithm, rondo_collective_t collective, uint32_t rank_count,
                              uint32_t root, uint32_t channel, uint32_t chunk,
                              rondo_kernel_t kernel = RONDO_KERNEL_INTERPRETER);

/// Returns the number of chunks of a tile. src/proto/partition.h determines the chunk to which an element belongs.
[[nodiscard]] uint32_t reduce_chunk_count(rondo_algorithm_t algorithm, rondo_collective_t collective,
                                        uint32_t rank_count);

/// Returns text such as "(2 (0 1))". The two operands that commute are sorted, so equal texts mean equal results.
[[nodiscard]] std::string to_string(const Reduction &reduce);

/// Returns the text of a step whose operands have these texts.
[[nodiscard]] std::string step_text(std::vector<std::string> operands);

/// Computes a reduction. `operand(rank)` returns values, and `step(std::vector<T>)` reduces from the left and rounds
/// once.
template <class Operand, class Step>
auto evaluate(const Reduction &reduce, const Operand &operand, const Step &step) -> decltype(operand(uint32_t{})) {
  if (reduce.operands.empty()) return operand(reduce.rank);
  std::vector<decltype(operand(uint32_t{}))> values;
  for (const Reduction &part : reduce.operands) values.push_back(evaluate(part, operand, step));
  return step(values);
}

}  // namespace rondo::test
