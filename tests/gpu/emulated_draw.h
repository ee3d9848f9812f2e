// SPDX-License-Identifier: Apache-2.0
// This file draws random calls for emulated blocks, and checks that the host executor's results have the same bits.
#pragma once

#include <algorithm>
#include <cstdio>
#include <random>
#include <vector>

#include "src/plan/build.h"
#include "tests/catch.h"
#include "tests/gpu/emulated_case.h"
#include "tests/gpu/settings.h"
#include "tests/sanitized.h"

namespace rondo::test {

inline constexpr ConnectionGeometry drawn_geometry{4, 512, 128};

[[nodiscard]] inline uint32_t between(Random &random, uint32_t low, uint32_t high) {
  return std::uniform_int_distribution<uint32_t>(low, high)(random);
}

/// Returns several numbers of threads for a group. Sometimes they include 0, which means one thread for all lanes of a
/// channel. There are two numbers at the gate, and one under a sanitizer.
[[nodiscard]] inline std::vector<uint32_t> draw_threads(Random &random) {
  std::vector<uint32_t> sizes{1, 2, 4, 8};
  if (under_thread_sanitizer || rondo_test::sanitized()) {
    [[maybe_unused]] static const int told =
        std::puts("skipped: three of four block sizes of each call: take minutes under a sanitizer; done without one");
    return {sizes[random() % sizes.size()]};
  }
  if (random() % sizes.size() == 0) sizes.push_back(0);
  if (!rondo_test::gate_quarter().has_value()) return sizes;
  [[maybe_unused]] static const int told =
      std::puts("skipped: all block sizes of each call but two: take long; --all runs them");
  std::shuffle(sizes.begin(), sizes.end(), random);
  return {sizes[0], sizes[1]};
}

/// Returns a count: 0, 1, odd, prime, or larger than several slots.
[[nodiscard]] inline uint64_t draw_count(Random &random) {
  constexpr uint64_t counts[] = {0, 1, 2, 7, 31, 64, 251, 600, 1009, 1999};
  return counts[random() % (under_thread_sanitizer ? 8 : 10)];
}

inline void draw_rest(EmulatedCase &it, Random &random, const ConnectionGeometry &slots) {
  const uint64_t most = uint64_t{slot_payload_bytes(it.protocol, slots)} * slots_per_chunk_max(slots.slot_count);
  it.chunk_bytes = std::min<uint64_t>(64 * between(random, 1, 8), most / 64 * 64);
  it.rank_count = between(random, 1, under_thread_sanitizer ? 3 : 5);
  it.root = between(random, 0, it.rank_count - 1);
  it.channels = between(random, 1, 2);
  it.in_place = random() % 2 == 0;
  it.exports = random() % 3 == 0;
  const auto size = static_cast<uint32_t>(rondo_type_size(it.type));
  if (random() % 2 == 0) it.offset_bytes = size * between(random, 0, 16);
  if (random() % 2 == 0) it.skew_bytes = size * between(random, 0, 3);
}

inline void check(const EmulatedCase &it, const ConnectionGeometry &slots, const std::vector<uint32_t> &threads,
                  uint64_t seed, uint64_t first_counter = 0) {
  const std::string outcome = run_case(it, slots, threads, seed, first_counter);
  CAPTURE(it.text(), seed);
  CHECK(outcome == "");
}

}  // namespace rondo::test
