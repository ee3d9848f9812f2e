// SPDX-License-Identifier: Apache-2.0
// These tests run links over the network in software. A seed determines the order, sleep, faults and defects.
#include <cstdio>

#include "tests/catch.h"
#include "tests/net/pair.h"

using namespace rondo;
using namespace rondo::net_test;

namespace {

/// Two ranks that sleep. Each has an executing thread and a sentinel. The sentinel's work wakes the executing thread.
/// The network wakes the sentinel, and so does the executing thread when it goes to sleep.
class Sleepers {
 public:
  explicit Sleepers(const WirePlan &plan) : random_(plan.seed + 1) { Pair::connect_soft(pair, plan); }

  /// Lets both ranks post and receive `slots` slots on each link, or learn of a loss.
  Outcome run(uint64_t slots) {
    for (uint64_t round = 0; round < rounds_max; ++round) {
      bool all = true, living_told = true;
      for (Side &side : pair.sides) {
        all &= side.posted == expected(slots) && side.received == expected(slots);
        if (pair.wire->dead(side.number)) continue;
        if (random_() % 2 == 0) execute(side, slots);
        if (random_() % 2 == 0) serve(side);
        living_told &= !side.progress->lost().empty();
        if (side.wrong) return Outcome::wrong;
      }
      if (all) return Outcome::right;
      if (living_told) return Outcome::lost;
    }
    return Outcome::stuck;
  }

  Pair pair;

 private:
  static std::vector<uint64_t> expected(uint64_t slots) { return std::vector<uint64_t>(channel_count, slots); }

  void execute(Side &side, uint64_t slots) {
    if (!executing_[side.number]) return;
    bool acted = false;
    for (uint32_t link = 0; link < channel_count; ++link) {
      acted |= side.post(link, slots);
      acted |= side.receive(link);
    }
    executing_[side.number] = acted;
    serving_[side.number] = true;
  }

  void serve(Side &side) {
    if (!serving_[side.number] && !pair.wire->rings(side.number)) return;
    serving_[side.number] = side.progress->step();
    executing_[side.number] |= serving_[side.number];
  }

  std::mt19937_64 random_;
  std::array<bool, 2> executing_{true, true};
  std::array<bool, 2> serving_{true, true};
};

/// Returns the outcome of the first of 50 seeds whose outcome is not right. At the gate, there are 12 seeds.
template <class Run>
Outcome first_trouble(Defect defect, const Run &run) {
  for (uint64_t seed = 20'261'122; seed < 20'261'122 + (has_few_seeds() ? 12 : 50); ++seed)
    if (const Outcome outcome = run(WirePlan{seed, defect}); outcome != Outcome::right) return outcome;
  return Outcome::right;
}

}  // namespace

TEST_CASE("network in software: pieces in any order, late credits, any interleaving: no wrong slot, no deadlock",
          "[net]") {
  if (has_few_seeds())
    std::puts("a quarter of 1,000 seeds of a network in software; each gate draws others");
  const uint64_t first = seed_from_environment();
  for (uint64_t seed = first; seed < first + seed_count(); ++seed) {
    CAPTURE(seed);
    Pair pair;
    Pair::connect_soft(pair, {seed});
    REQUIRE(exchange(pair, 40, seed + 1) == Outcome::right);
  }
}

TEST_CASE("network in software: ranks that sleep are woken by everything that they wait for", "[net]") {
  const uint64_t first = seed_from_environment();
  for (uint64_t seed = first; seed < first + seed_count(); ++seed) {
    CAPTURE(seed);
    Sleepers sleepers({seed});
    REQUIRE(sleepers.run(40) == Outcome::right);
  }
}

TEST_CASE("network in software: a cable is cut, both ways or one way, or a host dies: no wrong slot, and each "
          "survivor is told once",
          "[net]") {
  const uint64_t first = seed_from_environment();
  // These runs are the longest. Under a sanitizer, a gate has fewer; each gate draws others.
  const bool few = rondo_test::sanitized() && has_few_seeds();
  const uint64_t count = few ? std::max<uint64_t>(1, seed_count() / 4) : seed_count();
  for (const Fault fault : {Fault::cut, Fault::cut_towards_0, Fault::cut_towards_1, Fault::host_1_dies}) {
    uint64_t lost = 0;
    for (uint64_t seed = first; seed < first + count; ++seed) {
      CAPTURE(seed, static_cast<int>(fault));
      Sleepers sleepers({seed, Defect::none, fault, seed % 499});
      const Outcome outcome = sleepers.run(100);
      REQUIRE((outcome == Outcome::lost || outcome == Outcome::right));
      for (Side &side : sleepers.pair.sides) {
        for (int round = 0; round < 3; ++round) side.progress->step();
        REQUIRE(side.progress->lost().size() <= 1);
      }
      lost += outcome == Outcome::lost ? 1 : 0;
    }
    CHECK(lost == count);  // no report was too late
  }
}

TEST_CASE("network in software: each defect of a network is caught", "[net]") {
  const auto awake = [](const WirePlan &plan) {
    Pair pair;
    Pair::connect_soft(pair, plan);
    return exchange(pair, 200, plan.seed);
  };
  const auto asleep = [](const WirePlan &plan) { return Sleepers(plan).run(200); };
  const auto deaf = [](WirePlan plan) {
    plan.fault = Fault::cut;
    plan.fault_after_rounds = 100;
    return Sleepers(plan).run(200);
  };
  CHECK(first_trouble(Defect::none, awake) == Outcome::right);
  CHECK(first_trouble(Defect::none, asleep) == Outcome::right);
  CHECK(first_trouble(Defect::none, deaf) == Outcome::lost);
  CHECK(first_trouble(Defect::early_arrival, awake) == Outcome::wrong);
  CHECK(first_trouble(Defect::early_credit, awake) != Outcome::right);
  CHECK(first_trouble(Defect::reuse_before_sent, awake) == Outcome::wrong);
  CHECK(first_trouble(Defect::lost_credit, awake) == Outcome::stuck);
  CHECK(first_trouble(Defect::lost_doorbell, awake) == Outcome::right);  // a rank that polls needs no doorbell
  CHECK(first_trouble(Defect::lost_doorbell, asleep) == Outcome::stuck);
  CHECK(first_trouble(Defect::deaf_to_loss, deaf) == Outcome::stuck);
}
