// SPDX-License-Identifier: Apache-2.0
// This file limits the size of a chunk by the number of slots of a link.
#pragma once

#include <cstdint>

namespace rondo {

/// The fewest slots of a link with which the schedules of every builder run. A ring deadlocks with one slot.
inline constexpr uint32_t slot_count_min = 2;

/// Returns the most slots that a chunk may take if links have `slot_count` slots (at least slot_count_min). Within this
/// limit no schedule of any builder deadlocks. In a ring, and in the loop-back link of a two-shot reduce, a chunk waits
/// in the link while the next move needs one more slot. A test proves that the limit works, and that one slot more does
/// not (tests/unit/plan_verifier_test.cpp). Tree needs no limit. For halving-doubling and the other direct algorithms,
/// slot_count would suffice as the limit.
[[nodiscard]] constexpr uint32_t slots_per_chunk_max(uint32_t slot_count) {
  return slot_count < slot_count_min ? 0 : slot_count - 1;
}

}  // namespace rondo
