// SPDX-License-Identifier: Apache-2.0
// This file chooses the seeds of randomised tests. RONDO_SEED replays a seed.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <random>

namespace rondo_test {

/// Returns RONDO_SEED, or a new seed if it is not set.
inline uint64_t seed_from_environment() {
  const char *const text = std::getenv("RONDO_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : std::random_device{}();
}

/// Calls `run` with the seeds from 1 to `count`, or to 1,000 if every test runs in full. With RONDO_SEED, `run` is
/// called only with that seed.
inline void for_each_seed(uint64_t count, const std::function<void(uint64_t)> &run) {
  const char *const given = std::getenv("RONDO_SEED");
  const uint64_t first = given != nullptr ? seed_from_environment() : 1;
  const uint64_t last = given != nullptr ? first : std::getenv("RONDO_TEST_ALL") != nullptr ? 1'000 : count;
  for (uint64_t seed = first; seed <= last; ++seed) run(seed);
}

}  // namespace rondo_test
