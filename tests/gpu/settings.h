// SPDX-License-Identifier: Apache-2.0
// With these settings, tests of emulated blocks do less under ThreadSanitizer, which makes each step about twenty times
// slower.
#pragma once

#include "tests/seeds.h"

namespace rondo::test {

using rondo_test::seed_from_environment;

#if defined(__SANITIZE_THREAD__)
inline constexpr bool under_thread_sanitizer = true;
#else
inline constexpr bool under_thread_sanitizer = false;
#endif

}  // namespace rondo::test
