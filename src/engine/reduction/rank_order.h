// SPDX-License-Identifier: Apache-2.0
// These functions reduce one operand of every rank, in rank order: ((x0 x1) x2) ...
#pragma once

#include <cstdint>
#include <span>

#include "src/engine/host_links.h"

namespace rondo {

/// The form of partial results between operands.
enum class Partials : uint8_t {
  native,   ///< arithmetic in the element type itself, where every operation rounds anyway
  rounded,  ///< rounded to the element type after each operand, as the steps of a schedule do
  wide,     ///< 8- and 16-bit floats: kept in float32 and rounded once, at the end
};

/// Returns the function of the reducer that is faster for `bytes` bytes.
[[nodiscard]] ReductionFunction reduce_function(const HostReducer &reducer, size_t bytes);

/// Writes the reduction of all operands to every output, divided if the reducer divides. An output may be one of the
/// operands. `past_caches` is a hint for one large output (reduction.h).
void reduce_in_rank_order(const HostReducer &reducer, std::span<const std::byte *const> operands,
                   std::span<std::byte *const> outputs, size_t count, uint32_t element_bytes, Partials partials,
                   bool past_caches = false);

}  // namespace rondo
