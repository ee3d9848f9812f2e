// SPDX-License-Identifier: Apache-2.0
// This file describes how all_to_all, gather and scatter move their blocks. Each block goes straight from its sender to
// its receiver, and each of the two has a lane for it. The executors run these lanes. The verifier, the simulator and
// `rondo schedule` get the same lanes as a schedule.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "src/plan/choice.h"
#include "src/plan/collective.h"
#include "src/proto/step.h"

namespace rondo {

/// A lane in which a rank sends its block for a peer, receives the peer's block, or does both. If it does both, it
/// sends a slot and receives a slot in turns.
struct BlockLane {
  uint32_t peer = 0;
  bool sends = false, receives = false;
};

/// Returns whether each rank sends a block to each rank. If so, a call in place overwrites each sent block with a
/// received block.
[[nodiscard]] constexpr bool trades_blocks(const Collective &traits) {
  return traits.carrier == Carrier::blocks && traits.source == traits.target;
}

/// Returns whether `from` has a block for `to`.
[[nodiscard]] constexpr bool moves_block(const Collective &traits, uint32_t from, uint32_t to, uint32_t root) {
  return has_source(traits, from, root) && has_target(traits, to, root);
}

/// Calls visit(lane) for each lane of `rank`, in the order in which the rank visits them. Sends start with the next
/// rank, and receives with the previous rank. The rank's block for itself has no lane.
/// @param trades  true if the rank sends from the range into which it receives
template <class Visit>
void each_block_lane(const Collective &traits, uint32_t rank, uint32_t rank_count, uint32_t root, bool trades,
                     const Visit &visit) {
  for (uint32_t distance = 1; distance < rank_count; ++distance) {
    const uint32_t next = (rank + distance) % rank_count, previous = (rank + rank_count - distance) % rank_count;
    if (moves_block(traits, rank, next, root)) visit(BlockLane{next, true, trades});
    if (!trades && moves_block(traits, previous, rank, root)) visit(BlockLane{previous, false, true});
  }
}

/// The steps of a lane that sends a slot, then receives a slot. The chunk and the link are 0.
inline constexpr std::array block_steps{Step{0, step_src | step_send, 0, {no_link, no_link}, {0, no_link}},
                                        Step{0, step_recv | step_dst, 0, {0, no_link}, {no_link, no_link}}};

/// Returns the steps of a lane. They are constants.
[[nodiscard]] constexpr std::span<const Step> steps_of(const BlockLane &lane) {
  return std::span(block_steps).subspan(lane.sends ? 0 : 1, lane.sends && lane.receives ? 2 : 1);
}

/// Returns the chunk number that stands for a block in a schedule. In an all_to_all, it is the distance from the sender
/// to the receiver. In a gather or scatter it is the rank that sends to the root or receives from it.
[[nodiscard]] constexpr uint32_t block_chunk(const Collective &traits, uint32_t from, uint32_t to,
                                             uint32_t rank_count) {
  if (trades_blocks(traits)) return (to + rank_count - from) % rank_count;
  return traits.source == BufferLayout::own_block ? from : to;
}

/// Returns the choice for a call whose largest block has `block_bytes`. Overrides do not change it.
/// @param ll_slot_bytes  payload of a slot with `ll`, or 0 if the blocks cannot go by `ll`
[[nodiscard]] PlanChoice choose_for_blocks(uint64_t block_bytes, uint64_t slot_bytes, uint64_t ll_slot_bytes);

}  // namespace rondo
