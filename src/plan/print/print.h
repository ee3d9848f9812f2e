// SPDX-License-Identifier: Apache-2.0
// These functions show schedules to people: as a table, JSON, Graphviz and a space-time drawing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/result.h"
#include "src/plan/schedule.h"

namespace rondo {

/// The schedules of all ranks, and the arguments for which they were built.
struct ScheduleSet {
  rondo_algorithm_t algorithm = RONDO_ALGORITHM_RING;
  ScheduleArgs args;  ///< the rank is not used
  std::vector<Schedule> schedules;
};

/// The most ranks of a drawing.
inline constexpr uint32_t drawing_rank_count_max = 64;

/// Builds the schedules of all ranks. Ignores args.rank.
[[nodiscard]] Result<ScheduleSet> build_schedules(rondo_algorithm_t algorithm, ScheduleArgs args);

/// Prints one line for each step, such as "  2  chunk 1  recv(3) src send(0)   reduce".
[[nodiscard]] std::string schedule_text(const ScheduleSet &set);
[[nodiscard]] std::string schedule_json(const ScheduleSet &set);
/// Draws the schedules. Fails for more ranks than drawing_rank_count_max.
[[nodiscard]] Result<std::string> schedule_dot(const ScheduleSet &set);
[[nodiscard]] Result<std::string> schedule_svg(const ScheduleSet &set);

}  // namespace rondo
