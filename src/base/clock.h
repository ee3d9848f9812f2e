// SPDX-License-Identifier: Apache-2.0
// This file has the library's only clock (nanoseconds of CLOCK_MONOTONIC). It also has all functions in which a thread
// gives up its core: naps, yields, and waits for a word of memory. Core logic takes the time as an argument, and its
// callers read the clock here. The simulation of tests/sim links another version of this file. There the time is
// virtual, and waiting lets another rank run.
#pragma once

#include <cstdint>

namespace rondo {

[[nodiscard]] uint64_t now_ns();

/// Gives up the core for at least `ns`. A signal may end the wait early.
void sleep_for_ns(uint64_t ns);

/// Sleeps between two polls of what other ranks publish: 50 us in the first 5 ms of a wait, and 1 ms afterwards.
inline void sleep_between_polls(uint64_t waited_ns) { sleep_for_ns(waited_ns < 5'000'000 ? 50'000 : 1'000'000); }

/// Gives up the core to a thread that can run.
void yield_core();

/// Sleeps while `word` is `value`, at most timeout_ns. It may return early. Processes may share the word.
void wait_for_word(uint32_t &word, uint32_t value, uint64_t timeout_ns);

/// Wakes one thread that waits for `word`. Call it after a change of the word.
void wake_word(uint32_t &word);

// Ticks measure the times of every operation cheaply. Only a reader of these times converts the ticks to nanoseconds.

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
