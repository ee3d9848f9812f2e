// SPDX-License-Identifier: Apache-2.0
// With these settings, tests of emulated blocks do less under ThreadSanitizer, which makes each step about twenty times
// slower.
#pragma once

#include <cstdio>

#include "tests/seeds.h"

namespace rondo::test {

using rondo_test::seed_from_environment;

#if defined(__SANITIZE_THREAD__)
inline constexpr bool under_thread_sanitizer = true;
#else
inline constexpr bool under_thread_sanitizer = false;
#endif

/// Returns true under ThreadSanitizer, and prints that the model is skipped. A model has one thread.
inline bool skips_model(const char *what) {
  if (under_thread_sanitizer) std::printf("skipped: %s: it has one thread; done without ThreadSanitizer\n", what);
  return under_thread_sanitizer;
}

/// Returns true, and prints that the case is skipped, if its collectives run by copies under ThreadSanitizer. A failure
/// releases the streams that wait in a collective, and the copies that follow on them race on purpose.
inline bool skips_released_copies(bool by_copies, const char *what) {
  if (!by_copies || !under_thread_sanitizer) return false;
  std::printf("skipped: %s: what released streams move races on purpose\n", what);
  return true;
}

}  // namespace rondo::test
