// SPDX-License-Identifier: Apache-2.0
// This file declares the shared-memory transport, for a communicator whose ranks are all on one host.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "src/base/memory_limit.h"
#include "src/bootstrap/store/store.h"
#include "transports/shm/segment.h"
#include "src/links/transport.h"

namespace rondo::shm {

struct ConnectRequest {
  uint32_t rank = 0;
  uint32_t rank_count = 1;
  uint32_t group_rank_count = 0;  ///< ranks of all hosts; 0 if all are on this one
  uint32_t channel_count = 1;
  uint32_t slot_count = 0;   ///< 0: connect() chooses
  uint32_t slot_bytes = 0;   ///< 0: connect() chooses
  uint32_t halvings = 0;     ///< see choose_segment_shape()
  uint32_t message_slot_bytes = 0;  ///< slot size for links of messages, equal on all hosts; if 0, connect() chooses
  bool mapping = true;       ///< try whether peers can map each other's memory
  bool cross_memory = true;  ///< try whether peers can read each other's memory
  std::string key_prefix;    ///< prefix of this communicator's keys in the store
  std::string host_name;
  uint64_t deadline_ns = 0;
};

/// Creates the segment or gets it from another rank. Returns when all ranks have mapped it.
[[nodiscard]] Result<std::unique_ptr<Transport>> connect(const ConnectRequest &request, Store &store,
                                                         SegmentTable &segments);

/// Returns the sizes that connect() chooses, so that `rondo info` can print them. The budgets for memory are halved
/// `halvings` times.
[[nodiscard]] SegmentShape choose_segment_shape(uint32_t rank_count, uint32_t channel_count, uint32_t slot_count,
                                                uint32_t slot_bytes, uint32_t halvings = 0);
/// Returns how many bytes max_memory_bytes limits for a communicator on one host: its segment, with messages.
[[nodiscard]] uint64_t host_memory_bytes(uint32_t rank_count, uint32_t channel_count, const MemoryChoice &choice);
/// Calls choose_memory() for the segment of a communicator on one host.
[[nodiscard]] Result<MemoryChoice> choose_host_memory(uint32_t rank_count, uint32_t channel_count,
                                                      const Config &config);

}  // namespace rondo::shm
