// SPDX-License-Identifier: Apache-2.0
// These tests check that a waiting rank hands its processor over at once when a peer needs it.
#include "src/engine/waiter.h"

#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <memory>

#include "src/base/clock.h"
#include "src/topo/host.h"
#include "tests/catch.h"
#include "tests/test_clock.h"
#include "tests/timed.h"
#include "tests/unit/executor_world.h"
#include "tests/unit/ranks.h"
#include "transports/shm/peers.h"

using namespace rondo;

namespace {

/// Counts the rounds of a wait until the rank prepares to sleep.
class CountingPeers final : public test::LocalPeers {
 public:
  explicit CountingPeers(bool shares) : shares_(shares) {}
  uint32_t prepare_sleep() override {
    sleeps = true;
    return 0;
  }
  bool shares_processor() override {
    ++questions;
    return shares_;
  }
  bool sleeps = false;
  uint32_t questions = 0;

 private:
  bool shares_;
};

uint32_t rounds_before_sleep(CountingPeers &peers, const WaitPolicy &policy) {
  test::Patience patience;
  Waiter waiter(policy, peers, patience);
  uint32_t rounds = 0;
  while (!peers.sleeps && waiter.idle()) ++rounds;
  return rounds;
}

constexpr WaitPolicy policy{0, 8192, 4, true};

}  // namespace

TEST_CASE("waiter: a rank spins for a peer that has a processor of its own") {
  CountingPeers peers(false);
  CHECK(rounds_before_sleep(peers, policy) == policy.spin_count + policy.yield_count + 1);
  CHECK(peers.questions == 1);
}

TEST_CASE("waiter: a rank whose peer waited on the same processor yields after a short spin") {
  CountingPeers peers(true);
  CHECK(rounds_before_sleep(peers, policy) <= 16 + policy.yield_count + 1);
  CHECK(peers.questions == 1);
}

TEST_CASE("waiter: a policy without a long spin asks nothing") {
  CountingPeers peers(true);
  rounds_before_sleep(peers, {0, 16, 4, true});
  CHECK(peers.questions == 0);
}

TEST_CASE("waiter: two threads on one of two processors do not spin for each other", "[.timed]") {
  const auto cores = allowed_cores();
  REQUIRE(cores.ok());
  if (cores.value().size() < 2) {
    WARN("not run: it needs two cores");
    return;
  }
  rondo_test::Ranks ranks(2);  // ranks have two cores, so waiting ranks spin
  REQUIRE(ranks.status() == RONDO_OK);
  constexpr int call_count = 1000;
  std::atomic<bool> failed = false;
  rondo_test::check_timed("1000 all-reduces of 8 B by two threads on one processor", 40'000'000, [&] {
    const uint64_t began_ns = now_ns();
    ranks.run([&](int, rondo_comm_t comm) {
      if (!bind_to({cores.value()[0][0]})) failed = true;
      double value = 1;
      for (int call = 0; call < call_count; ++call)
        if (rondo_all_reduce(&value, &value, 1, RONDO_FLOAT64, RONDO_MAX, comm, nullptr) != RONDO_OK) failed = true;
      return RONDO_OK;
    });
    return now_ns() - began_ns;
  });
  CHECK_FALSE(failed);
}

TEST_CASE("waiter: a peer shares the processor only if it has waited there a short time ago") {
  cpu_set_t allowed, one;
  REQUIRE(::sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  CPU_ZERO(&one);
  CPU_SET(::sched_getcpu(), &one);
  REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
  rondo_test::HeldClock clock;
  shm::SegmentShape shape;
  shape.geometry = {2, 64, 64};
  shape.rank_count = 2;
  const auto segment = shm::Segment::create({1, 2}, shape).value();
  std::unique_ptr<shm::ShmPeers> ranks[2];
  for (uint32_t rank = 0; rank < 2; ++rank) {
    segment->board(rank).process = static_cast<uint64_t>(::getpid());
    ranks[rank] = shm::ShmPeers::create(segment, rank).value();
  }
  CHECK_FALSE(ranks[0]->shares_processor());  // rank 1 has not waited yet
  CHECK(ranks[1]->shares_processor());
  CHECK(ranks[0]->shares_processor());
  clock.advance(50'000'000);
  CHECK_FALSE(ranks[0]->shares_processor());  // rank 1 may be on another core by now
  CHECK(ranks[1]->shares_processor());
  REQUIRE(::sched_setaffinity(0, sizeof allowed, &allowed) == 0);
}
