// SPDX-License-Identifier: Apache-2.0
#include "src/cli/tune/tuner_input.h"

#include <algorithm>

#include "src/links/message_boards.h"
#include "transports/hosts/connect.h"
#include "transports/shm/shm_transport.h"

namespace rondo::cli {
namespace {

constexpr uint32_t channel_count_default = 2;

/// Returns the number of channels that link_channel_count() of src/core/registry.cpp returns.
uint32_t channels_of(const Config &config) { return std::clamp(config.channels, channel_count_default, channels_max); }
uint32_t slot_bytes_of(const Config &config) { return static_cast<uint32_t>(config.slot_bytes); }  // 64 MiB at most

/// Returns the shape of the segment, or the default shape if max_memory_bytes is too small for all shapes.
shm::SegmentShape shape_of(const Config &config, uint32_t rank_count) {
  const auto choice = shm::choose_host_memory(rank_count, channels_of(config), config);
  return shm::choose_segment_shape(rank_count, channels_of(config), config.slot_count, slot_bytes_of(config),
                                   choice.ok() ? choice.value().halvings : 0);
}

hosts::Spread spread_of(const Config &config, uint32_t rank_count, uint32_t host_count) {
  return {rank_count, (rank_count + host_count - 1) / host_count, rank_count / host_count, config.network,
          hosts::path_count(config)};
}

/// Returns the slots of ranks on several hosts. If max_memory_bytes is too small, returns the usual slots.
ConnectionGeometry slots_of(const Config &config, const hosts::Spread &spread) {
  const auto choice = hosts::choose_hosts_memory(spread, channels_of(config), config,
                                                 spread.rank_count <= message_ranks_max);
  return hosts::choose_slots(spread, channels_of(config), config.slot_count, slot_bytes_of(config),
                             choice.ok() ? choice.value().halvings : 0);
}

}  // namespace

TunerInput tuner_input(const Config &config, uint32_t rank_count, bool oversubscribed, uint32_t host_count) {
  TunerInput tuner;
  tuner.rank_count = rank_count;
  tuner.oversubscribed = oversubscribed;
  tuner.element_bytes = 4;
  const shm::SegmentShape shape = shape_of(config, rank_count);
  const ConnectionGeometry &geometry = shape.geometry;
  tuner.slot_count = geometry.slot_count;
  tuner.slot_bytes = geometry.slot_bytes;
  tuner.ll_slot_bytes = geometry.ll_slot_bytes;
  tuner.post_bytes = shape.exchange.post_bytes;
  tuner.exchange_chunk_bytes = shape.exchange.chunk_bytes;
  if (host_count > 1) {  // a network moves whole slots, and load_store needs memory that all ranks map
    tuner.host_count = host_count;
    const ConnectionGeometry slots = slots_of(config, spread_of(config, rank_count, host_count));
    tuner.slot_count = slots.slot_count;
    tuner.slot_bytes = slots.slot_bytes;
    tuner.ll_slot_bytes = tuner.post_bytes = tuner.exchange_chunk_bytes = 0;
  }
  tuner.overrides = {config.algorithm, config.protocol, config.channels, config.chunk_bytes, config.kernel};
  return tuner;
}

MemoryPlan memory_plan(const Config &config, uint32_t rank_count, uint32_t host_count) {
  const uint32_t channel_count = channels_of(config);
  const hosts::Spread spread = spread_of(config, rank_count, host_count);
  const bool messages = rank_count <= message_ranks_max;
  const auto choice = host_count == 1 ? shm::choose_host_memory(rank_count, channel_count, config)
                                      : hosts::choose_hosts_memory(spread, channel_count, config, messages);
  MemoryPlan plan;
  if (!choice.ok()) {
    plan.refusal = choice.error().message;
  } else if (host_count == 1) {
    plan.shared_bytes = shape_of(config, rank_count).bytes();
    plan.memory_bytes = shm::host_memory_bytes(rank_count, channel_count, choice.value());
  } else {
    const ConnectionGeometry slots = slots_of(config, spread);
    shm::SegmentShape shape = shm::choose_segment_shape(spread.host_ranks_max, channel_count, slots.slot_count,
                                                        slots.slot_bytes, choice.value().halvings);
    shape.group_rank_count = rank_count;
    plan.shared_bytes = shape.bytes();
    plan.memory_bytes = hosts::hosts_memory_bytes(spread, channel_count, choice.value(), messages);
  }
  return plan;
}

}  // namespace rondo::cli
