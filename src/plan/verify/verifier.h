// SPDX-License-Identifier: Apache-2.0
// The verifier proves that the schedules of all ranks are right, for one channel of one collective and one size:
//
//     partition  the chunks cover the channel's part of the buffer, each element once
//     links      both ends of a directed link name the same chunks in the same order; one lane sends, one receives
//     data       every rank that must have an operand gets it exactly once; each reduction is finished exactly once;
//                nothing is read before it is written, or overwritten while it is still needed; the operands of a
//                mean are scaled by the number of ranks in each (data.cpp)
//     slots      no deadlock with slot_count slots in each link, under any interleaving (slots.cpp)
//
// Links and data do not depend on the size, because all slots of a chunk take the same path. Partition and slots do.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/plan/schedule.h"
#include "src/proto/partition.h"

namespace rondo {

struct VerifyArgs {
  rondo_collective_t collective = RONDO_ALL_REDUCE;
  uint32_t root = 0;
  std::span<const Schedule> schedules;  ///< one for each rank
  Partition partition;                  ///< with tile_count set
  uint32_t slot_count = 2;              ///< slots of each link
  uint64_t slot_elements = 1;           ///< a range moves ceil(count / slot_elements) slots
  std::vector<bool> in_place;           ///< indexed by rank; empty if no rank is in place
  /// For each rank, whether its peers read payloads in its buffers when they consume the slot
  /// (Algorithm::reference_safe). Empty means false for all ranks. A proof also holds if it is true for fewer ranks.
  std::vector<bool> by_reference;
};

/// A broken rule, and the step that breaks it. If no single step breaks the rule, the step is the first affected one.
struct Violation {
  uint32_t rank = 0;
  uint32_t lane = 0;
  uint32_t step = 0;
  std::string reason;
};

/// Describes a violation, as in "rank 3, lane 0, step 7: reads acc before a step of its lane wrote it".
[[nodiscard]] std::string to_string(const Violation &violation);

/// Returns the first violation found, or nothing if the schedules are proven right. Time and memory grow with the
/// number of steps of all ranks, and time also with the slots of a channel. A ring of 1,024 ranks takes seconds.
[[nodiscard]] std::optional<Violation> verify(const VerifyArgs &args);

}  // namespace rondo
