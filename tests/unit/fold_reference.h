// SPDX-License-Identifier: Apache-2.0
// What a reduction gives, bit by bit: the documented order of folding (tests/fold_order.h) with the tests' own
// arithmetic (tests/unit/combine_reference.h).
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/fold_order.h"
#include "tests/unit/combine_reference.h"

namespace combine_test {

/// Element `index` of those at `data`, which have `size` bytes each and may be unaligned.
inline Bits element_at(const void *data, uint64_t index, size_t size) {
  Bits bits = 0;
  std::memcpy(&bits, static_cast<const unsigned char *>(data) + index * size, size);
  return bits;
}

/// One element: `operand(rank)` gives each rank's. avg divides in the last step.
template <class Operand>
Bits fold_reference(rondo_type_t type, rondo_op_t op, uint32_t rank_count, const rondo::test::Fold &fold,
                    const Operand &operand) {
  std::vector<Bits> last;
  for (const rondo::test::Fold &part : fold.operands)
    last.push_back(rondo::test::evaluate(
        part, operand, [&](const std::vector<Bits> &values) { return combine_reference(type, op, values, 0); }));
  if (last.empty()) last.push_back(operand(fold.rank));
  return combine_reference(type, op, last, op == RONDO_AVG ? rank_count : 0);
}

}  // namespace combine_test
