// SPDX-License-Identifier: Apache-2.0
// The verifier proves that the schedules of all ranks, for one channel of one collective and one size, are right:
//
//     partition  the chunks cover the channel's part of the buffer, each element once
//     links      both ends of a directed link name the same chunks in the same order; one lane sends, one receives
//     data       every rank that must have it gets each operand exactly once, finished exactly once where it is
//                reduced; nothing is read before it is written, nor overwritten while it is still needed; the
//                operands of a mean are scaled by the ranks in each (data.cpp)
//     slots      no deadlock with slot_count slots a link, under any interleaving (slots.cpp)
//
// Links and data do not depend on the size: every slot of a chunk takes the same way. Partition and slots do.
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
  std::span<const Schedule> schedules;  ///< one a rank
  Partition partition;                  ///< with tile_count set
  uint32_t slot_count = 2;              ///< of each link
  uint64_t slot_elements = 1;           ///< a range moves ceil(count / slot_elements) slots
  std::vector<bool> in_place;           ///< by rank; empty if none
  /// Ranks whose peers read payloads in their own buffers when they consume the slot (Algorithm::reference_safe); by
  /// rank, empty if none. What is proven for some ranks holds for fewer, too.
  std::vector<bool> by_reference;
};

/// A broken rule, and the step that breaks it. If no single step does, it is the first step that suffers.
struct Violation {
  uint32_t rank = 0;
  uint32_t lane = 0;
  uint32_t step = 0;
  std::string reason;
};

/// Returns e.g. "rank 3, lane 0, step 7: reads acc before a step of its lane wrote it".
[[nodiscard]] std::string to_string(const Violation &violation);

/// Returns the first violation found, or nothing if the schedules are proven right. Time and memory grow with the steps
/// of all ranks, and time with the slots that a channel moves. 1,024 ranks of a ring take seconds.
[[nodiscard]] std::optional<Violation> verify(const VerifyArgs &args);

}  // namespace rondo
