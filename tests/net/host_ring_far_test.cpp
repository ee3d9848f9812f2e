// SPDX-License-Identifier: Apache-2.0
// The control plane of more hosts than a mesh joins: what hosts that are no neighbours ask each other.
#include <algorithm>
#include <cstdlib>

#include "src/base/clock.h"
#include "tests/catch.h"
#include "tests/net/host_ring.h"
#include "tests/test_clock.h"

using namespace rondo;
using namespace rondo::net_test;

namespace {

constexpr uint64_t second_ns = 1'000'000'000;

}  // namespace

TEST_CASE("ring of hosts: a question to a host that is no neighbour is answered, also around what is down", "[net]") {
  HostRing ring({.hosts = 9, .per_host = 2});
  ring.ranks(3).latest = {80, 80};
  REQUIRE(ring.run(2 * second_ns, [&] { return ring.all_met() && ring.control(0).status(7).entered == 80; }));
  REQUIRE_FALSE(ring.joined(0, 3));
  const auto count_known_to = [&](uint32_t rank, uint64_t operation) {
    std::optional<OperationInfo> known;
    ring.run(second_ns, [&] {
      known = ring.control(rank).entered(7, operation);
      return known.has_value();
    });
    return known ? known->signature.count : 0;
  };
  for (const uint32_t rank : {0u, 1u}) CHECK(count_known_to(rank, 20 + 20 * rank) == 1'020 + 20 * rank);
  CHECK_FALSE(ring.control(0).entered(7, 81).has_value());
  const uint32_t between = 1;  // on the way that both have asked by
  REQUIRE(ring.overlay().first_hops(0, [](uint32_t, uint32_t) { return false; })[3] == between);
  ring.cut(0, between);
  ring.cut(between, 0);
  ring.run(2 * second_ns, [] { return false; });
  for (const uint32_t rank : {0u, 1u}) CHECK(count_known_to(rank, 60 + 20 * rank) == 1'060 + 20 * rank);
}

TEST_CASE("ring of hosts: ranks that ask about all others put a bounded number of questions", "[net]") {
  HostRing ring({.hosts = 9, .per_host = 8});
  for (uint32_t host = 1; host < 9; ++host) ring.ranks(host).latest.assign(8, 1);
  REQUIRE(ring.run(second_ns, [&] { return ring.all_met(); }));
  ring.run(2 * second_ns, [] { return false; });
  ring.forget_counts();
  const auto known = [&] {
    uint32_t count = 0;
    for (uint32_t peer = 8; peer < 72; ++peer) count += ring.control(0).entered(peer, 1).has_value() ? 1 : 0;
    return count;
  };
  CHECK(known() == 0);
  ring.run(4 * ring_step_ns, [] { return false; });
  CHECK(ring.questions() >= 16);
  CHECK(ring.questions() <= 2 * 16);  // a question takes two connections at most
  CHECK(ring.run(60 * second_ns, [&] { return known() == 64; }));
}

TEST_CASE("ring of hosts: ranks that do not answer, or to which there is no way, keep no others from being asked",
          "[net]") {
  for (const bool stopped : {true, false}) {
    HostRing ring({.hosts = 9, .per_host = 8});
    for (uint32_t host = 0; host < 9; ++host) ring.ranks(host).latest.assign(8, 1);
    REQUIRE(ring.run(second_ns, [&] { return ring.all_met(); }));
    ring.run(2 * second_ns, [] { return false; });
    for (const uint32_t host : {1u, 2u}) stopped ? ring.set_stopped(host, true) : ring.leave(host);
    ring.run(second_ns, [] { return false; });
    const auto all_known = [&] {
      bool all = true;
      for (uint32_t peer = 8; peer < 72; ++peer) {
        const uint32_t host = peer / 8;
        const bool behind = stopped && (host == 3 || host == 6);  // to which the shortest way is over host 1
        all &= ring.control(0).entered(peer, 1).has_value() || host <= 2 || behind;
      }
      return all;
    };
    rondo_test::HeldClock clock;
    CHECK(ring.run(240 * ring_step_ns, [&] {
      clock.advance(15'000'000);  // of the clock by which those may be asked again that were asked once
      return all_known();
    }));
  }
}

TEST_CASE("ring of hosts: the clock of rank 0's host is measured along the way, and errors add up", "[net]") {
  HostRing ring({.hosts = 9});
  REQUIRE(ring.run(3 * second_ns, [&] {
    return std::ranges::count_if(ring.clocks(), [](const ClockOffset &each) { return each.uncertainty_ns != 0; }) == 8;
  }));
  for (uint32_t host = 1; host < 9; ++host) {
    const ClockOffset &each = ring.clocks()[host];
    CHECK(static_cast<uint64_t>(std::abs(each.offset_ns)) <= each.uncertainty_ns);  // they have one clock
  }
}
