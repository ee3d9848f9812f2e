// SPDX-License-Identifier: Apache-2.0
// This file computes the ranks with which a rank can ever exchange slots. They are its peers in any of the schedules
// that the tuner can choose. Between hosts, only these peers get links of collectives. A device opens the memory of
// only these peers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/plan/choice.h"
#include "src/plan/tuning_table.h"

namespace rondo {

/// The input for the choice of an algorithm, without the operation. It is equal on all ranks.
struct EdgeRequest {
  std::span<const uint32_t> node_of;  ///< node of each rank, as in ScheduleArgs
  uint32_t channel_count = 1;         ///< the most channels of a plan
  bool oversubscribed = false;
  PlanChoice overrides;
  const TuningTable *table = nullptr;  ///< may be null
};

/// The most ranks for which schedules are built in advance. With more ranks, every peer is permitted.
inline constexpr uint32_t edges_rank_count_max = 4096;

/// Returns, for each rank, whether it is a peer of `rank` in some schedule. `rank` is also a peer of itself. Both ranks
/// of a pair get the same answer.
[[nodiscard]] std::vector<bool> permitted_peers(const EdgeRequest &request, uint32_t rank);

/// Returns whether every two ranks of different nodes are peers because one_shot is possible. The result is equal on
/// all ranks. With more than edges_rank_count_max ranks, it is true.
[[nodiscard]] bool joins_all_nodes(const EdgeRequest &request);

}  // namespace rondo
