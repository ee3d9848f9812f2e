// SPDX-License-Identifier: Apache-2.0
#include "src/cli/tune/tuner_input.h"

#include <algorithm>

#include "src/links/message_boards.h"
#include "transports/hosts/connect.h"
#include "transports/shm/shm_transport.h"

namespace rondo::cli {
namespace {

constexpr uint32_t channel_count_default = 2;  // src/core/registry.cpp connects at least as many

uint32_t channels_of(const Config &config) { return std::max(config.channels, channel_count_default); }
uint32_t slot_bytes_of(const Config &config) { return static_cast<uint32_t>(config.slot_bytes); }  // 64 MiB at most

/// Returns the shape of the segment. If max_memory_bytes is too small for every shape, returns the usual shape.
shm::SegmentShape shape_of(const Config &config, uint32_t rank_count) {
  const auto choice = shm::choose_host_memory(rank_count, channels_of(config), config);
  return shm::choose_segment_shape(rank_count, channels_of(config), config.slot_count, slot_bytes_of(config),
                                   choice.ok() ? choice.value().halvings : 0);
}

hosts::Spread spread_of(const Config &config, uint32_t rank_count, uint32_t host_count) {
  return {rank_count, (rank_count + host_count - 1) / host_count, rank_count / host_count, config.network,
          hosts::path_count(config)};
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
    const hosts::Spread spread = spread_of(config, rank_count, host_count);
    const auto choice = hosts::choose_hosts_memory(spread, channels_of(config), config,
                                                   rank_count <= message_ranks_max);
    const ConnectionGeometry slots =
        hosts::choose_slots(spread, channels_of(config), config.slot_count, slot_bytes_of(config),
                            choice.ok() ? choice.value().halvings : 0);
    tuner.slot_count = slots.slot_count;
    tuner.slot_bytes = slots.slot_bytes;
    tuner.ll_slot_bytes = tuner.post_bytes = tuner.exchange_chunk_bytes = 0;
  }
  tuner.overrides = {config.algorithm, config.protocol, config.channels, config.chunk_bytes, config.kernel};
  return tuner;
}

std::string memory_refusal(const Config &config, uint32_t rank_count, uint32_t host_count) {
  const auto choice = host_count == 1 ? shm::choose_host_memory(rank_count, channels_of(config), config)
                                      : hosts::choose_hosts_memory(spread_of(config, rank_count, host_count),
                                                                   channels_of(config), config,
                                                                   rank_count <= message_ranks_max);
  return choice.ok() ? "" : choice.error().message;
}

uint64_t shared_bytes(const Config &config, uint32_t rank_count) { return shape_of(config, rank_count).bytes(); }

}  // namespace rondo::cli
