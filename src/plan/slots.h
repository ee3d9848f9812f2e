// SPDX-License-Identifier: Apache-2.0
// Limits the size of a chunk by the slots that a link has.
#pragma once

#include <cstdint>

namespace rondo {

/// The fewest slots of a link with which every builder's schedules run: a ring deadlocks with one.
inline constexpr uint32_t slot_count_min = 2;

/// Returns the most slots that a chunk may take if links have `slot_count` (at least slot_count_min). Then no schedule
/// of any builder deadlocks. In a ring, and in the loop-back link of a two-shot reduce, a whole chunk fills the link
/// and the next move needs one slot more. A test proves that this many slots work and one more does not
/// (tests/unit/plan_verifier_test.cpp). Tree needs no bound at all; halving-doubling and the other direct algorithms
/// bear slot_count.
[[nodiscard]] constexpr uint32_t slots_per_chunk_max(uint32_t slot_count) {
  return slot_count < slot_count_min ? 0 : slot_count - 1;
}

}  // namespace rondo
