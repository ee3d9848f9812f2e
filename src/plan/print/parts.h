// SPDX-License-Identifier: Apache-2.0
// The printers share these parts: the phase of a step, its words, and its time if every step takes one unit of time.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "src/plan/print/print.h"

namespace rondo::print_parts {

/// The role of a step in the whole; a colour in drawings.
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

/// Returns e.g. "recv(3) src send(0,2) finish", with ranks for links.
[[nodiscard]] std::string words(const Schedule &schedule, const Step &step);

/// A step in the drawing.
struct Mark {
  uint32_t rank, lane, step;
  uint32_t time;                   ///< the earliest unit in which all that it waits for is done
  std::vector<uint32_t> messages;  ///< marks that receive what it sends
};

/// Returns all steps of all ranks (one tile), in order of rank, lane, step; empty if the schedules do not fit together.
[[nodiscard]] std::vector<Mark> lay_out(const ScheduleSet &set);

[[nodiscard]] Result<void> check_drawable(const ScheduleSet &set);
[[nodiscard]] std::string title(const ScheduleSet &set);

}  // namespace rondo::print_parts
