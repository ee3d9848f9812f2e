// SPDX-License-Identifier: Apache-2.0
#include "cuda/executors/connection_shape.h"

#include <algorithm>

namespace rondo::cuda {

uint32_t choose_connection_channels(const PlacedRequest &request, const BlockBudget &budget, uint32_t least) {
  const bool alone_there = request.neighbours.in_process == request.rank_count && request.on_one_node();
  // With MPS, no process knows what other processes claim.
  if (!alone_there || request.mps || request.rank_count < 2 || request.settings.channels != 0) return least;
  const uint64_t left = half_of_free_blocks(budget, request.claimed_blocks);
  uint64_t wanted = blocks_for_each_rank(budget, left, request.rank_count);
  if (request.settings.max_ctas != 0) wanted = std::min<uint64_t>(wanted, request.settings.max_ctas);
  return std::max(least, static_cast<uint32_t>(std::min<uint64_t>(wanted, default_channels_max)));
}

ConnectionGeometry choose_slots(const PlacedRequest &request, uint32_t channel_count) {
  ConnectionGeometry slots;
  const Settings &asked = request.settings;
  slots.slot_count = asked.slot_count != 0 ? asked.slot_count : slot_count_for(request.rank_count, channel_count);
  slots.slot_bytes = asked.slot_bytes != 0 ? static_cast<uint32_t>(asked.slot_bytes)
                                           : slot_bytes_for(request.rank_count, channel_count, slots.slot_count);
  slots.ll_slot_bytes = ll_slot_bytes;
  if (!request.on_one_node()) slots = request.links->geometry();
  return slots;
}

uint32_t choose_message_channels(const PlacedRequest &request) {
  return request.on_one_node() && request.rank_count <= batch_ranks_max ? message_channels_max : 0;
}

ConnectionGeometry choose_message_slots(const PlacedRequest &request) {
  constexpr uint32_t bytes_max = 64 << 10, bytes_min = 4 << 10, count = 4;
  const Settings &asked = request.settings;
  ConnectionGeometry slots;
  slots.slot_count = asked.slot_count != 0 ? static_cast<uint32_t>(asked.slot_count) : count;
  slots.slot_bytes = asked.slot_bytes != 0 ? static_cast<uint32_t>(asked.slot_bytes) : bytes_max;
  const uint64_t slot_count = uint64_t{request.rank_count} * message_channels_max * slots.slot_count;
  const auto fits = [&] { return slots.slot_bytes * slot_count <= message_memory_bytes; };
  while (asked.slot_bytes == 0 && slots.slot_bytes > bytes_min && !fits()) slots.slot_bytes /= 2;
  slots.ll_slot_bytes = 0;
  return slots;
}

}  // namespace rondo::cuda
