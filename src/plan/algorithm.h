// SPDX-License-Identifier: Apache-2.0
// The registry has one line for each algorithm. CONTRIBUTING.md says what else a new algorithm needs.
#pragma once

#include <cstdint>
#include <span>

#include "src/base/result.h"
#include "src/plan/collective.h"
#include "src/plan/schedule.h"

namespace rondo {

struct Algorithm {
  rondo_algorithm_t id;
  uint32_t rank_count_max;                      ///< build_schedule() refuses more ranks
  bool (*supports)(rondo_collective_t);
  Schedule (*build)(const ScheduleArgs &);      ///< pure; the arguments are valid for this algorithm
  /// Returns true if payloads may be sent by reference with these arguments: a peer reads them in the sender's own
  /// buffer when it consumes the slot. If true, the verifier proves that no later step overwrites a payload before the
  /// peer has read it. An operation ends only after the peers have consumed all such slots.
  bool (*reference_safe)(const ScheduleArgs &);
};

[[nodiscard]] std::span<const Algorithm> algorithms();

/// Returns the entry of `id`, or null for RONDO_ALGORITHM_AUTO and unknown values.
[[nodiscard]] const Algorithm *find_algorithm(rondo_algorithm_t id);

/// Builds the schedule, or fails with the reason: unsupported collective, too many ranks, bad rank or root.
[[nodiscard]] Result<Schedule> build_schedule(rondo_algorithm_t id, const ScheduleArgs &args);

}  // namespace rondo
