// SPDX-License-Identifier: Apache-2.0
// This file computes sums of small floats as load_store does: it rounds once, while a schedule rounds after each rank.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "src/engine/reduction/rank_order.h"

namespace rondo::test {

[[nodiscard]] inline bool is_small_float(rondo_type_t type) {
  return type == RONDO_FLOAT16 || type == RONDO_BFLOAT16 || type == RONDO_FLOAT8_E4M3 || type == RONDO_FLOAT8_E5M2;
}

/// Reduces `count` elements of every rank, in rank order.
[[nodiscard]] inline std::vector<std::byte> reduce_rounding_once(rondo_type_t type, rondo_op_t op,
                                                                 std::span<const std::byte *const> operands,
                                                                 size_t count) {
  const size_t element_bytes = rondo_type_size(type);
  std::vector<std::byte> result(count * element_bytes);
  std::byte *const outputs[] = {result.data()};
  const auto function = reduce_function_plain(type, op);
  const HostReducer reducer{function, function, op == RONDO_AVG ? static_cast<uint32_t>(operands.size()) : 0};
  if (count != 0)
    reduce_in_rank_order(reducer, operands, outputs, count, static_cast<uint32_t>(element_bytes), Partials::wide);
  return result;
}

}  // namespace rondo::test
