// SPDX-License-Identifier: Apache-2.0
// This file measures the cost of sharing a device among processes. Without MPS a device works for one process at a
// time.
//
// In a hand-over, a process's stream waits for a word of memory and makes the device set 64 KiB of memory. Then it
// writes the word for which the next process waits. The processes of a device form a ring, around which the turn goes.
// The time of a hand-over is the time of a round divided by the number of processes. All processes compete for the
// device, because each has waiting work on a stream. A collective among them needs one hand-over for each hop of its
// plan, one after another, for each tile.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/perf/cases.h"
#include "bench/perf/device.h"
#include "bench/perf/group.h"

namespace rondo::perf {

inline constexpr uint32_t relay_rounds = 50, relay_runs = 5;  ///< a run to warm up comes before these runs
inline constexpr uint64_t relay_timeout_ns = 20'000'000'000;  ///< for one run

/// Returns the processes on the device of `rank`, each by its first rank.
[[nodiscard]] std::vector<size_t> sharers_of(std::span<const Member> members, size_t rank);

/// Measures hand-overs. Every rank calls it, with nothing in flight.
/// @param hand_over_us  for each rank, the median of the runs on its device; 0 if one process has the device alone.
///                      Empty if processes share no device, or a stream cannot wait for a word.
[[nodiscard]] Outcome measure_hand_overs(Group &group, Device &device, std::span<const Member> members,
                                         std::vector<double> &hand_over_us);

/// Returns how many hand-overs a call needs one after another, if its tiles do not overlap. For each tile, these are
/// the hops of the plan's algorithm.
[[nodiscard]] uint64_t hand_overs_of(const Case &what, size_t bytes, const rondo_plan_info_t &plan);

}  // namespace rondo::perf
