// SPDX-License-Identifier: Apache-2.0
// This file makes the tuner's input on this machine: the slots and the exchange of the shared-memory transport.
#pragma once

#include <cstdint>
#include <string>

#include "src/base/config.h"
#include "src/plan/tuner.h"

namespace rondo::cli {

/// Makes the input for all_reduce of float32, and applies the overrides of the configuration. The ranks are on
/// `host_count` hosts.
[[nodiscard]] TunerInput tuner_input(const Config &config, uint32_t rank_count, bool oversubscribed,
                                     uint32_t host_count = 1);

/// The memory of a communicator on the host with the most of its ranks.
struct MemoryPlan {
  uint64_t shared_bytes = 0;  ///< size of the ranks' segment before the first message
  uint64_t memory_bytes = 0;  ///< everything that max_memory_bytes limits, with the segment
  std::string refusal;        ///< why max_memory_bytes is too small, or ""; then the sizes are 0
};
[[nodiscard]] MemoryPlan memory_plan(const Config &config, uint32_t rank_count, uint32_t host_count);

}  // namespace rondo::cli
