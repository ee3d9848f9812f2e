// SPDX-License-Identifier: Apache-2.0
// The ranks with which a rank can ever exchange slots: its peers in any schedule that the tuner can choose. Between
// hosts only these peers get connections, memory and queue pairs. A device opens the memory of these peers only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/plan/choice.h"
#include "src/plan/tuning_table.h"

namespace rondo {

/// The input of the choice of an algorithm, beside the operation. It is equal on all ranks.
struct EdgeRequest {
  std::span<const uint32_t> node_of;  ///< by rank, as in ScheduleArgs
  uint32_t channel_count = 1;         ///< the most that a plan has
  bool oversubscribed = false;
  PlanChoice overrides;
  const TuningTable *table = nullptr;  ///< null: none
};

/// More ranks than these: no schedules are built in advance, and each peer is permitted.
inline constexpr uint32_t edges_rank_count_max = 4096;

/// Returns for each rank whether it and `rank` are peers in some schedule, or the same. The answer is equal at both
/// ends.
[[nodiscard]] std::vector<bool> permitted_peers(const EdgeRequest &request, uint32_t rank);

/// Returns whether each two ranks of different nodes are peers in some schedule, as permitted_peers() says. The answer
/// is equal on all ranks. Above 64 ranks it is true only if one algorithm joins all ranks.
[[nodiscard]] bool joins_all_nodes(const EdgeRequest &request);

}  // namespace rondo
