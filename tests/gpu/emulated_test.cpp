// SPDX-License-Identifier: Apache-2.0
// The kernels' bodies on emulated blocks: bit-equal to the host executor in every combination.
#include <array>

#include "tests/catch.h"
#include "tests/gpu/emulated_case.h"
#include "tests/gpu/settings.h"

using namespace rondo;
using namespace rondo::test;

TEST_CASE("emulated block: a ring of float32 sums is bit-equal to the host executor, whatever the threads") {
  const uint64_t seed = seed_from_environment();
  CAPTURE(seed);
  for (const uint64_t count : {0, 1, 7, 250, 1999}) {
    EmulatedCase it;
    it.rank_count = 3;
    it.count = count;
    it.channels = 2;
    CAPTURE(it.text());
    CHECK(run_case(it, {4, 512, 128}, {1, 2, 4, 8}, seed) == "");
  }
}
