// SPDX-License-Identifier: Apache-2.0
// Computes the result of a reduction, bit by bit: the documented order of reducing (tests/reduction_order.h) with the
// tests' own arithmetic (tests/unit/reduction_reference.h).
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/reduction_order.h"
#include "tests/unit/reduction_reference.h"

namespace reduction_test {

/// Returns element `index` of those at `data`, which have `size` bytes each and may be unaligned.
inline Bits element_at(const void *data, uint64_t index, size_t size) {
  Bits bits = 0;
  std::memcpy(&bits, static_cast<const unsigned char *>(data) + index * size, size);
  return bits;
}

/// Returns one element: `operand(rank)` gives each rank's. avg divides in the last step.
template <class Operand>
Bits rank_order_reference(rondo_type_t type, rondo_op_t op, uint32_t rank_count, const rondo::test::Reduction &reduce,
                    const Operand &operand) {
  std::vector<Bits> last;
  for (const rondo::test::Reduction &part : reduce.operands)
    last.push_back(rondo::test::evaluate(
        part, operand, [&](const std::vector<Bits> &values) { return reduction_reference(type, op, values, 0); }));
  if (last.empty()) last.push_back(operand(reduce.rank));
  return reduction_reference(type, op, last, op == RONDO_AVG ? rank_count : 0);
}

}  // namespace reduction_test
