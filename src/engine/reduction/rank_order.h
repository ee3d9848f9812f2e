// SPDX-License-Identifier: Apache-2.0
// Reduces one operand of every rank, in rank order, as the direct schedules do: ((x0 x1) x2) ..., one rounding a step.
#pragma once

#include <cstdint>
#include <span>

#include "src/engine/host_links.h"

namespace rondo {

/// outputs[*] = the reduction of all operands, divided where the reducer does. An output may be one of the operands.
/// single_steps: 8- and 16-bit floats, whose steps round; other types may be reduced several operands at a time.
/// past_caches: a hint, for one large output (reduction.h).
void reduce_in_rank_order(const HostReducer &reducer, std::span<const std::byte *const> operands,
                   std::span<std::byte *const> outputs, size_t count, uint32_t element_bytes, bool single_steps,
                   bool past_caches = false);

}  // namespace rondo
