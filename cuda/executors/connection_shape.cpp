// SPDX-License-Identifier: Apache-2.0
#include "cuda/executors/connection_shape.h"

#include <algorithm>

namespace rondo::cuda {

uint32_t choose_connection_channels(const DeviceRequest &request, const BlockBudget &budget, uint32_t least) {
  const bool alone_there = request.neighbours.in_process == request.rank_count && request.on_one_node();
  // Through MPS nobody knows what other processes claim.
  if (!alone_there || request.mps || request.rank_count < 2 || request.channel_count != 0) return least;
  const uint64_t left = half_of_free_blocks(budget, request.claimed_blocks);
  uint64_t wanted = blocks_for_each_rank(budget, left, request.rank_count);
  if (request.channel_count_max != 0) wanted = std::min<uint64_t>(wanted, request.channel_count_max);
  return std::max(least, static_cast<uint32_t>(std::min<uint64_t>(wanted, default_channels_max)));
}

ConnectionGeometry choose_slots(const DeviceRequest &request, uint32_t channel_count) {
  ConnectionGeometry slots;
  slots.slot_count = request.slot_count != 0 ? request.slot_count : slot_count_for(request.rank_count, channel_count);
  slots.slot_bytes = request.slot_bytes != 0
                         ? request.slot_bytes
                         : slot_bytes_for(request.rank_count, channel_count, slots.slot_count);
  slots.ll_slot_bytes = ll_slot_bytes;
  if (!request.on_one_node()) slots = request.links->geometry();
  return slots;
}

}  // namespace rondo::cuda
