// SPDX-License-Identifier: Apache-2.0
// How long a rank looks for why a slot did not fit its operation.
#include "src/engine/watch.h"
#include "tests/catch.h"
#include "tests/net/scene_ranks.h"

using namespace rondo;
using net_test::SceneRanks;

namespace {

constexpr uint64_t ms_ns = 1'000'000;

/// How often rank 0 looks for why a slot from rank 1 has another size, where nobody disagrees.
uint64_t looks_for_reason(SceneRanks &ranks, uint64_t timeout_ns) {
  const OperationInfo entered;
  OperationWatch watch(ranks, 0, 2, 1, entered, timeout_ns);
  watch.explain_fault(1, Fault::wrong_size);
  const uint64_t looks = ranks.looks;
  REQUIRE(ranks.failed());
  CHECK(ranks.failure().message.find("rank 1 sent a slot of another size") == 0);
  return looks;
}

}  // namespace

TEST_CASE("watch: of a rank of another host the reason of a fault is awaited longer than of one beside it", "[unit]") {
  SceneRanks near(2), far(2);
  far.far = {1};
  CHECK(looks_for_reason(near, 600'000 * ms_ns) == 100);
  CHECK(looks_for_reason(far, 600'000 * ms_ns) == 400);
}

TEST_CASE("watch: the reason of a fault is not awaited past the deadline of the operation", "[unit]") {
  SceneRanks ranks(2);
  ranks.far = {1};
  CHECK(looks_for_reason(ranks, 20 * ms_ns) <= 4);  // at least 5 ms each, and the first is always there
}

TEST_CASE("watch: a slot of another operation is a disagreement also where the deadline is near and the record missing",
          "[unit]") {
  // Rank 1's call of operation 2 comes behind its slot, or is here and equal: then the slot is a defect.
  for (const bool known : {false, true}) {
    SceneRanks ranks(2);
    ranks.far = {1};
    ranks.latest = {2, known ? 2u : 1u};
    const OperationInfo entered;
    OperationWatch watch(ranks, 0, 2, 2, entered, 20 * ms_ns);
    watch.explain_fault(1, Fault::foreign_slot);
    REQUIRE(ranks.failed());
    CHECK(ranks.failure().status == (known ? RONDO_ERROR_INTERNAL : RONDO_ERROR_MISMATCH));
    CHECK(ranks.failure().peer == 1);
    const bool says_unknown = ranks.failure().message.find("is not known here yet") != std::string::npos;
    CHECK(says_unknown == !known);
  }
}
