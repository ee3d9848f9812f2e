// SPDX-License-Identifier: Apache-2.0
#include "src/base/clock.h"

#include <string>

#include "src/base/kernel_file.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace rondo {
namespace {

/// Returns whether the processor reports that its counter never stops and never changes its rate.
bool has_invariant_counter() {
#if defined(__x86_64__)
  constexpr unsigned power_leaf = 0x80000007;
  constexpr unsigned invariant_bit = 1u << 8;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(power_leaf, &eax, &ebx, &ecx, &edx) != 0 && (edx & invariant_bit) != 0;
#else
  return false;
#endif
}

/// Returns whether the kernel trusts the counter. If the counters of the cores differ, the kernel removes the counter
/// from its list of clock sources.
bool kernel_trusts_counter() {
  const std::string names =
      " " + read_kernel_line("/sys/devices/system/clocksource/clocksource0/available_clocksource") + " ";
  return names.find(" tsc ") != names.npos;
}

}  // namespace

TickSource best_tick_source() {
  return has_invariant_counter() && kernel_trusts_counter() ? TickSource::counter : TickSource::clock;
}

TickMark mark_ticks(TickSource source) {
  // The thread may lose its core between the readings of the two clocks. So the attempt with the shortest time is used.
  constexpr int attempt_count = 8;
  TickMark best;
  uint64_t best_gap_ns = UINT64_MAX;
  for (int attempt = 0; attempt < attempt_count; ++attempt) {
    const uint64_t begin_ns = now_ns();
    const uint64_t ticks = read_ticks(source);
    const uint64_t gap_ns = now_ns() - begin_ns;
    if (gap_ns >= best_gap_ns) continue;
    best_gap_ns = gap_ns;
    best = {ticks, source == TickSource::counter ? begin_ns + gap_ns / 2 : ticks};
  }
  return best;
}

uint64_t ticks_to_ns(uint64_t ticks, const TickMark &before, const TickMark &after) {
  if (ticks <= before.ticks || after.at_ns <= before.at_ns) return before.at_ns;
  if (ticks >= after.ticks) return after.at_ns;
  const double share = static_cast<double>(ticks - before.ticks) / static_cast<double>(after.ticks - before.ticks);
  return before.at_ns + static_cast<uint64_t>(share * static_cast<double>(after.at_ns - before.at_ns));
}

}  // namespace rondo
