// SPDX-License-Identifier: Apache-2.0
// This file checks promises about time, in test cases tagged [.timed]. Such cases run only if requested, by a test of
// the suite "timed", which has the machine to itself. A case does not retry: it compares a median with its bound. With
// RONDO_TEST_TIMED=report a missed bound is only reported, and the time is measured once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/sanitized.h"

namespace rondo_test {

inline constexpr size_t timed_repetitions = 5;

/// Says whether a missed bound fails the test. Under a sanitizer it does not, since such a build is slow by design.
[[nodiscard]] inline bool bounds_hold() {
  const char *const mode = std::getenv("RONDO_TEST_TIMED");
  return !sanitized() && (mode == nullptr || std::string(mode) != "report");
}

/// Compares the median of several times with `bound_ns`. `measure_ns` returns one time.
inline void check_timed(const std::string &name, uint64_t bound_ns, const std::function<uint64_t()> &measure_ns,
                        size_t repetitions = timed_repetitions) {
  if (!bounds_hold()) repetitions = 1;
  std::vector<uint64_t> times(repetitions);
  for (uint64_t &time : times) time = measure_ns();
  std::sort(times.begin(), times.end());
  const uint64_t median_ns = times[repetitions / 2];
  std::printf("timed: %s: median %.3f ms, bound %.3f ms\n", name.c_str(), static_cast<double>(median_ns) * 1e-6,
              static_cast<double>(bound_ns) * 1e-6);
  if (bounds_hold()) CHECK(median_ns <= bound_ns);
}

}  // namespace rondo_test
