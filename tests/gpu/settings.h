// SPDX-License-Identifier: Apache-2.0
// These settings let tests of emulated blocks do less under ThreadSanitizer, which makes each step some twenty times
// slower.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>

namespace rondo::test {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool under_thread_sanitizer = true;
#else
inline constexpr bool under_thread_sanitizer = false;
#endif

/// Returns RONDO_SEED, which replays a test, or a fresh seed.
inline uint64_t seed_from_environment() {
  const char *text = std::getenv("RONDO_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : std::random_device{}();
}

}  // namespace rondo::test
