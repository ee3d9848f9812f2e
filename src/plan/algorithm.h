// SPDX-License-Identifier: Apache-2.0
// The registry of algorithms, with one line for each. A new algorithm needs a file with its builder, and a line.
#pragma once

#include <cstdint>
#include <span>

#include "src/base/result.h"
#include "src/plan/collective.h"
#include "src/plan/schedule.h"

namespace rondo {

struct Algorithm {
  rondo_algorithm_t id;
  uint32_t rank_count_max;                      ///< more ranks are refused
  bool (*supports)(rondo_collective_t);
  Schedule (*build)(const ScheduleArgs &);      ///< pure; args are valid for this algorithm
  /// True: with these arguments the peer may read a payload in the sender's own buffer when it consumes the slot ("by
  /// reference"). No later step of the operation overwrites the payload before that, as the verifier proves. At the end
  /// of an operation the executor waits until its references are consumed.
  bool (*reference_safe)(const ScheduleArgs &);
};

[[nodiscard]] std::span<const Algorithm> algorithms();

/// Returns the entry of `id`, or null (RONDO_ALGORITHM_AUTO, unknown).
[[nodiscard]] const Algorithm *find_algorithm(rondo_algorithm_t id);

/// Builds the schedule, or says why this algorithm cannot: collective not supported, too many ranks, bad rank or root.
[[nodiscard]] Result<Schedule> build_schedule(rondo_algorithm_t id, const ScheduleArgs &args);

}  // namespace rondo
