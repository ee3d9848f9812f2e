// SPDX-License-Identifier: Apache-2.0
// Ticks measure the times of every operation cheaply. Only a reader of these times converts the ticks to nanoseconds.
#pragma once

#include <cstdint>

#include "src/base/clock.h"

namespace rondo {

/// The unit of ticks.
/// - counter: the processor's time stamp counter, if it has one rate on all cores. It costs a few nanoseconds, even if
///   clock_gettime() is a system call.
/// - clock: now_ns()
enum class TickSource : uint64_t { clock = 0, counter = 1 };

/// Returns the counter if processor and kernel both trust it, otherwise the clock. One rank of a host makes this choice
/// for all ranks of the host.
[[nodiscard]] TickSource best_tick_source();

[[nodiscard]] inline uint64_t read_ticks([[maybe_unused]] TickSource source) {
#if defined(__x86_64__)
  if (source == TickSource::counter) return __builtin_ia32_rdtsc();
#endif
  return now_ns();
}

/// One moment, read by both clocks.
struct TickMark {
  uint64_t ticks = 0;
  uint64_t at_ns = 0;
};

[[nodiscard]] TickMark mark_ticks(TickSource source);

/// Converts `ticks` to nanoseconds, by interpolation between the two marks. Ticks outside of the marks get the time of
/// the nearer mark.
[[nodiscard]] uint64_t ticks_to_ns(uint64_t ticks, const TickMark &before, const TickMark &after);

}  // namespace rondo
