// SPDX-License-Identifier: Apache-2.0
// This file computes the result of a reduction, bit by bit. It uses the documented order (tests/reduction_order.h) and
// the tests' own arithmetic (tests/unit/reduction_reference.h).
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/reduction_order.h"
#include "tests/unit/reduction_reference.h"

namespace reduction_test {

/// Returns element `index` at `data`. Elements have `size` bytes each, and need not be aligned.
inline Bits element_at(const void *data, uint64_t index, size_t size) {
  Bits bits = 0;
  std::memcpy(&bits, static_cast<const unsigned char *>(data) + index * size, size);
  return bits;
}

/// The reduction of some ranks' operands, and the number of these ranks.
struct Partial {
  Bits bits;
  uint32_t ranks;
};

/// Reduces partial results. A mean of m ranks is kept as their sum times 2^-ceil(log2 m).
inline Partial reduce_partials(rondo_type_t type, rondo_op_t op, const std::vector<Partial> &partials,
                               uint32_t divisor) {
  uint32_t ranks = 0;
  std::vector<Bits> values;
  std::vector<uint32_t> shifts;
  for (const Partial &partial : partials) ranks += partial.ranks;
  for (const Partial &partial : partials) {
    values.push_back(partial.bits);
    shifts.push_back(level_of(ranks) - level_of(partial.ranks));
  }
  return {reduction_reference(type, op, values, divisor, shifts), ranks};
}

/// Returns one element of the result. `operand(rank)` returns the rank's element. avg divides in the last step.
template <class Operand>
Bits rank_order_reference(rondo_type_t type, rondo_op_t op, uint32_t rank_count, const rondo::test::Reduction &reduce,
                    const Operand &operand) {
  const auto of_rank = [&](uint32_t rank) { return Partial{operand(rank), 1}; };
  std::vector<Partial> last;
  for (const rondo::test::Reduction &part : reduce.operands)
    last.push_back(rondo::test::evaluate(part, of_rank, [&](const std::vector<Partial> &partials) {
      return reduce_partials(type, op, partials, 0);
    }));
  if (last.empty()) last.push_back(of_rank(reduce.rank));
  return reduce_partials(type, op, last, op == RONDO_AVG ? rank_count : 0).bits;
}

}  // namespace reduction_test
