// SPDX-License-Identifier: Apache-2.0
#include "cuda/executors/connection_shape.h"

#include <algorithm>

namespace rondo::cuda {
namespace {

/// Returns the bytes for a rank's slots if its request is frugal (is_frugal()). If ranks share buffers, only exchanges
/// of blocks, and short calls between devices, use slots. Otherwise all collectives use slots.
uint64_t frugal_slots_bytes(uint32_t rank_count, BufferPlace buffers) {
  constexpr uint64_t for_rank = 1 << 20;
  const uint64_t all = std::min(for_rank * rank_count, slot_memory_bytes);
  if (buffers == BufferPlace::device) return all;
  constexpr uint64_t few_bytes = 4 << 20;
  return shares_partly(buffers) ? all / 2 : std::max(std::min(all, few_bytes), all / 2);
}

}  // namespace

bool is_frugal(const PlacedRequest &request) {
  const Settings &asked = request.settings;
  return request.is_free() && request.on_one_node() && asked.algorithm == RONDO_ALGORITHM_AUTO &&
         asked.channels == 0 && asked.tuning_hash == 0;
}

ConnectionGeometry choose_slots(const PlacedRequest &request, uint32_t channel_count, BufferPlace buffers,
                                uint32_t halvings) {
  ConnectionGeometry slots;
  const Settings &asked = request.settings;
  uint64_t memory_bytes = is_frugal(request) ? frugal_slots_bytes(request.rank_count, buffers) : slot_memory_bytes;
  if (!request.pairs_apart.empty()) memory_bytes = std::min(memory_bytes, host_slot_memory_bytes);
  memory_bytes >>= halvings;
  slots.slot_count = asked.slot_count != 0 ? asked.slot_count
                                           : slot_count_for(request.rank_count, channel_count, memory_bytes);
  slots.slot_bytes = asked.slot_bytes != 0
                         ? static_cast<uint32_t>(asked.slot_bytes)
                         : slot_bytes_for(request.rank_count, channel_count, slots.slot_count, memory_bytes);
  slots.ll_slot_bytes = ll_slot_bytes;
  if (!request.on_one_node()) slots = request.links->geometry();
  return slots;
}

ConnectionGeometry choose_copy_slots(const PlacedRequest &request, uint32_t channel_count, uint32_t halvings) {
  constexpr uint32_t slot_count = 4, bytes_max = 4 << 20, step = 4096;
  const uint32_t bytes_min = halvings == 0 ? 64 << 10 : step;
  constexpr uint64_t memory_max = 64 << 20, frugal_memory_max = 8 << 20;  // messages take 4 MiB more
  const Settings &asked = request.settings;
  uint64_t memory_bytes = is_frugal(request) ? frugal_memory_max : memory_max;
  if (!request.pairs_apart.empty()) memory_bytes = std::min(memory_bytes, host_slot_memory_bytes);
  memory_bytes >>= halvings;
  const uint64_t share = memory_bytes / slot_count / request.rank_count / channel_count;
  const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(share, bytes_max)) / step * step;
  ConnectionGeometry slots;
  slots.slot_count = asked.slot_count != 0 ? asked.slot_count : slot_count;
  slots.slot_bytes = asked.slot_bytes != 0 ? static_cast<uint32_t>(asked.slot_bytes) : std::max(bytes, bytes_min);
  slots.ll_slot_bytes = 0;  // a copy engine has no protocol but flags after data
  if (!request.on_one_node()) slots = request.links->geometry();
  return slots;
}

uint32_t choose_message_channels(const PlacedRequest &request) {
  return request.on_one_node() && request.rank_count <= batch_ranks_max ? message_channels_max : 0;
}

ConnectionGeometry choose_message_slots(const PlacedRequest &request, BufferPlace buffers, uint32_t halvings) {
  constexpr uint32_t bytes_min = 4 << 10, count = 4;
  const uint32_t usual_bytes = is_frugal(request) && buffers != BufferPlace::shared_device ? 32 << 10 : 64 << 10;
  const uint32_t bytes_max = std::max(usual_bytes >> halvings, bytes_min);
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

uint64_t choose_plan_bytes(uint32_t rank_count, uint32_t channel_count, uint32_t halvings) {
  constexpr uint64_t plan_count = 256;  // as many as PlanCache keeps
  constexpr uint64_t channel_bytes = 128, rank_bytes = 40, bytes_min = 256 << 10, bytes_max = 4 << 20;
  const uint64_t usual = plan_count * channel_count * (channel_bytes + rank_bytes * rank_count);
  return std::max(std::clamp(usual, bytes_min, bytes_max) >> halvings, std::min(usual, bytes_min));
}

}  // namespace rondo::cuda
