// SPDX-License-Identifier: Apache-2.0
// These tests check how long a rank searches for the reason why a slot did not fit its operation.
#include "src/engine/watch.h"

#include <optional>
#include <utility>

#include "src/base/clock.h"
#include "tests/catch.h"
#include "tests/net/scene_ranks.h"

using namespace rondo;
using net_test::SceneRanks;

namespace {

constexpr uint64_t ms_ns = 1'000'000;

/// Rank 1 is on another host. Its operation 2 differs from rank 0's, and rank 0 learns of that only after a time.
class LateRecord final : public SceneRanks {
 public:
  explicit LateRecord(uint64_t known_ns) : SceneRanks(2), known_ns_(known_ns) {
    far = {1};
    latest = {2, 1};
  }
  uint64_t latest_operation(uint32_t peer) const override {
    return peer == 1 && now_ns() >= known_ns_ ? 2 : SceneRanks::latest_operation(peer);
  }
  std::optional<OperationInfo> entered(uint32_t peer, uint64_t operation) const override {
    if (peer != 1 || operation != 2) return SceneRanks::entered(peer, operation);
    if (now_ns() < known_ns_) return std::nullopt;
    OperationInfo what;
    what.signature.count = 7;
    what.history = 1;
    return what;
  }

 private:
  const uint64_t known_ns_;
};

/// Rank 0 learns of rank 1's end only after a time.
class LateDeath final : public SceneRanks {
 public:
  explicit LateDeath(uint64_t seen_ns) : SceneRanks(2), seen_ns_(seen_ns) {}
  std::vector<uint32_t> find_dead() const override {
    return now_ns() >= seen_ns_ ? std::vector<uint32_t>{1} : std::vector<uint32_t>{};
  }

 private:
  const uint64_t seen_ns_;
};

/// Rank 1 leaves because rank 2 has died. Rank 2's death becomes known later.
class LeftAfterDeath final : public SceneRanks {
 public:
  LeftAfterDeath() : SceneRanks(3) { latest = {1, 0, 0}; }
  RankState state(uint32_t peer) const override {
    died_ = true;
    return peer == 1 ? RankState::left : RankState::alive;
  }
  std::vector<uint32_t> find_dead() const override {
    return died_ ? std::vector<uint32_t>{2} : std::vector<uint32_t>{};
  }

 private:
  mutable bool died_ = false;
};

/// Returns how often rank 0 searches for the reason why a slot from rank 1 has another size, if no ranks disagree.
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

TEST_CASE("watch: a death is named before a rank that left because of it", "[unit]") {
  const LeftAfterDeath ranks;
  const auto ended = find_ended_rank(ranks, 0, 3, 1, RankEnd::any);
  REQUIRE(ended);
  CHECK(ended->peer == 2);
  CHECK(ended->message.find("rank 2") == 0);
}

TEST_CASE("watch: a rank whose process has exited between operations is dead, but has not crashed", "[unit]") {
  class Exited final : public SceneRanks {
   public:
    Exited() : SceneRanks(3) {}
    RankState state(uint32_t peer) const override { return peer == 1 ? exited : RankState::alive; }
    std::vector<uint32_t> find_dead() const override { return {1}; }
    RankState exited = RankState::exited;
  };
  Exited ranks;
  CHECK(find_ended_rank(ranks, 0, 3, 1, RankEnd::any)->peer == 1);
  CHECK(find_ended_rank(ranks, 0, 3, 1, RankEnd::death)->peer == 1);
  CHECK_FALSE(find_ended_rank(ranks, 0, 3, 1, RankEnd::crash));
  ranks.exited = RankState::alive;
  CHECK(find_ended_rank(ranks, 0, 3, 1, RankEnd::crash)->peer == 1);
}

TEST_CASE("watch: the reason of a fault is not awaited past the deadline of the operation", "[unit]") {
  SceneRanks ranks(2);
  ranks.far = {1};
  CHECK(looks_for_reason(ranks, 20 * ms_ns) <= 4);  // each takes at least 5 ms, and the first always occurs
}

TEST_CASE("watch: a slot of another operation is a disagreement also where the deadline is near and the record missing",
          "[unit]") {
  // Rank 1's call of operation 2 becomes known after its slot. If the call is known and equal, or if rank 1 is on this
  // host, the slot is a defect.
  for (const auto &[known, far] : {std::pair(false, true), std::pair(true, true), std::pair(false, false)}) {
    CAPTURE(known, far);
    SceneRanks ranks(2);
    if (far) ranks.far = {1};
    ranks.latest = {2, known ? 2u : 1u};
    const OperationInfo entered;
    OperationWatch watch(ranks, 0, 2, 2, entered, 20 * ms_ns);
    watch.explain_fault(1, Fault::foreign_slot);
    REQUIRE(ranks.failed());
    CHECK(ranks.failure().status == (known || !far ? RONDO_ERROR_INTERNAL : RONDO_ERROR_MISMATCH));
    CHECK(ranks.failure().peer == 1);
    const bool says_unknown = ranks.failure().message.find("does not know yet") != std::string::npos;
    CHECK(says_unknown == (!known && far));
  }
}

TEST_CASE("watch: a record that comes during the last sleep before the deadline still says what was called", "[unit]") {
  LateRecord ranks(now_ns() + 3 * ms_ns);  // known after the first search, which is the last before the deadline
  OperationInfo entered;
  entered.signature.count = 2;
  OperationWatch watch(ranks, 0, 2, 2, entered, ms_ns);
  watch.explain_fault(1, Fault::foreign_slot);
  REQUIRE(ranks.failed());
  CHECK(ranks.failure().status == RONDO_ERROR_MISMATCH);
  CHECK(ranks.failure().message.find("operation 2 differs between ranks: rank 0 called ") == 0);
}

TEST_CASE("watch: a buffer that cannot be read is its rank's end, also where that is seen in the last sleep alone",
          "[unit]") {
  // The first search is the only one before the deadline. If rank 1's end is never seen, the error blames the buffer.
  for (const bool seen : {true, false}) {
    LateDeath ranks(seen ? now_ns() + 3 * ms_ns : UINT64_MAX);
    const OperationInfo entered;
    OperationWatch watch(ranks, 0, 2, 2, entered, ms_ns);
    watch.explain_fault(1, Fault::unreadable);
    REQUIRE(ranks.failed());
    CHECK(ranks.failure().status == (seen ? RONDO_ERROR_REMOTE : RONDO_ERROR_SYSTEM));
    CHECK(ranks.failure().peer == 1);
  }
}

TEST_CASE("watch: a buffer that this rank has no descriptor to open is this rank's affair, not its owner's", "[unit]") {
  for (const auto &[error_number, advice] : {std::pair(EMFILE, "ulimit -n"), std::pair(ENOMEM, "ulimit -v")}) {
    LateDeath ranks(UINT64_MAX);
    const OperationInfo entered;
    OperationWatch watch(ranks, 0, 2, 2, entered, ms_ns);
    watch.explain_fault(1, Fault::unreadable, error_number);
    REQUIRE(ranks.failed());
    CHECK(ranks.failure().status == RONDO_ERROR_OUT_OF_RESOURCES);
    CHECK(ranks.failure().peer == 0);
    CHECK(ranks.failure().message.find(advice) != std::string::npos);
  }
}
