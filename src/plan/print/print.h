// SPDX-License-Identifier: Apache-2.0
// These functions show schedules to people: as a table, JSON, Graphviz and a space-time drawing.
#pragma once

#include <array>
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

namespace rondo::print_parts {

// All printers share these parts: a step's phase, its words, and its time if every step takes one unit of time.

/// The role of a step. In drawings, each role has a colour.
enum class Phase { send, reduce, finish, move, local };

struct PhaseLook {
  const char *name, *meaning, *fill;
};

inline constexpr std::array<PhaseLook, 5> phase_looks{{
    {"send", "sends what is in its own buffers", "#cfe2ff"},
    {"reduce", "reduces what it receives", "#ffe3b8"},
    {"finish", "completes the reduction of a chunk", "#ffb8b0"},
    {"move", "receives data that is complete", "#cdeccb"},
    {"local", "copies within the rank", "#e4e4e4"},
}};

[[nodiscard]] Phase phase_of(const Step &step);
[[nodiscard]] const PhaseLook &look_of(const Step &step);

/// Returns the heading of a lane's column in a drawing: "rank 0", "rank 0 up" or "rank 0 to 3".
[[nodiscard]] std::string lane_name(const ScheduleSet &set, uint32_t rank, uint32_t lane);

/// Describes a step, as in "recv(3) src send(0,2) finish". The numbers are ranks, not links.
[[nodiscard]] std::string words(const Schedule &schedule, const Step &step);

/// A step in a drawing.
struct Mark {
  uint32_t rank, lane, step;
  uint32_t time;                   ///< first unit of time in which the step can run
  std::vector<uint32_t> messages;  ///< the steps that receive the slots of this step
};

/// Returns all steps of all ranks for one tile, by rank, lane and step. It is empty if sends and receives do not match.
[[nodiscard]] std::vector<Mark> lay_out(const ScheduleSet &set);

[[nodiscard]] Result<void> check_drawable(const ScheduleSet &set);
[[nodiscard]] std::string title(const ScheduleSet &set);

}  // namespace rondo::print_parts
