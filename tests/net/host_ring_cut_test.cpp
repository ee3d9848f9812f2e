// SPDX-License-Identifier: Apache-2.0
// The control plane of more hosts than a mesh joins: connections that are cut, alone or between the parts of a network,
// and hosts that leave.
#include <algorithm>
#include <functional>
#include <random>
#include <utility>

#include "tests/catch.h"
#include "tests/net/host_ring.h"
#include "tests/sanitized.h"

using namespace rondo;
using namespace rondo::net_test;

namespace {

constexpr uint64_t second_ns = 1'000'000'000;
constexpr uint64_t promised_ns = 2 * second_ns;

/// Two hosts have a connection that works.
using Joined = std::function<bool(uint32_t, uint32_t)>;

Joined partition(const HostRing &ring, const std::vector<bool> &part) {
  return [&](uint32_t one, uint32_t other) { return part[one] == part[other] && ring.joined(one, other); };
}

/// Returns the hosts that hear of `host`, and itself.
std::vector<bool> piece_of(uint32_t hosts, uint32_t host, const Joined &joined) {
  std::vector<bool> piece(hosts);
  piece[host] = true;
  for (bool grew = true; grew;) {  // by a host each time
    grew = false;
    for (uint32_t one = 0; one < hosts; ++one)
      for (uint32_t other = 0; other < hosts; ++other)
        if (piece[one] && !piece[other] && joined(one, other)) grew = piece[other] = true;
  }
  return piece;
}

/// Returns whether each host, within the promised time, takes exactly the ranks for dead that it cannot hear of. Hosts
/// that `left` do not count.
bool parts_know(HostRing &ring, const Joined &joined, const std::vector<bool> &left) {
  return ring.run(promised_ns, [&] {
    for (uint32_t host = 0; host < left.size(); ++host) {
      if (left[host]) continue;
      std::vector<bool> kept = piece_of(ring.host_count(), host, joined);
      const auto dead = ring.dead_to(kept);
      for (uint32_t each = 0; each < left.size(); ++each)
        if (left[each]) kept[each] = true;
      if (dead != ranks_of(kept, false)) return false;
    }
    return true;
  });
}

void expect_nobody_dead(HostRing &ring) {
  for (uint32_t each = 0; each < ring.host_count(); ++each) {
    if (!ring.running(each)) continue;
    std::vector<bool> alone(ring.host_count());
    alone[each] = true;
    CHECK(ring.dead_to(alone) == std::vector<uint32_t>());
  }
}

std::vector<uint32_t> shuffled_hosts(uint32_t hosts, std::mt19937_64 &random) {
  std::vector<uint32_t> order(hosts);
  for (uint32_t host = 0; host < hosts; ++host) order[host] = host;
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

/// Cuts one connection both ways; each end learns it, and reports it.
std::pair<uint32_t, uint32_t> cut_one(HostRing &ring, const std::vector<uint32_t> &order) {
  size_t other = 1;
  while (!ring.joined(order[0], order[other])) ++other;
  ring.cut(order[0], order[other]);
  ring.cut(order[other], order[0]);
  return {order[0], order[other]};
}

}  // namespace

TEST_CASE("ring of hosts: after any partition each part knows within 2 s which ranks it has lost", "[net]") {
  rondo_test::GateShare share("partitions of a ring of hosts");
  for (uint32_t hosts = 5; hosts <= 7; ++hosts)
    for (uint32_t mask = 1; mask < (1u << (hosts - 1)); ++mask) {  // host n - 1 is on the other side
      if (!share.has_next()) continue;
      for (const bool one_way : {false, true}) {
        CAPTURE(hosts, mask, one_way);
        HostRing ring({.hosts = hosts, .seed = mask});
        REQUIRE(ring.run(second_ns, [&] { return ring.all_met(); }));
        std::vector<bool> part(hosts);
        for (uint32_t host = 0; host < hosts; ++host) part[host] = (mask >> host & 1) != 0;
        ring.cut_in_two(part, one_way);
        CHECK(parts_know(ring, partition(ring, part), std::vector<bool>(hosts)));
      }
    }
}

TEST_CASE("ring of hosts: a partition is known though one connection was cut before and a host has left", "[net]") {
  rondo_test::GateShare share("partitions of a ring that lacks a host");
  for (uint32_t hosts = 6; hosts <= 7; ++hosts)
    for (uint32_t mask = 1; mask < (1u << (hosts - 1)); ++mask) {
      if (!share.has_next()) continue;
      for (const bool one_way : {false, true}) {
        CAPTURE(hosts, mask, one_way);
        HostRing ring({.hosts = hosts, .seed = mask});
        REQUIRE(ring.run(second_ns, [&] { return ring.all_met(); }));
        std::mt19937_64 random(mask);
        const std::vector<uint32_t> order = shuffled_hosts(hosts, random);
        const auto cut = cut_one(ring, order);
        const uint32_t gone = order.back() == cut.second ? order[hosts - 2] : order.back();
        ring.run(promised_ns, [] { return false; });
        ring.leave(gone);
        ring.run(second_ns / 2, [] { return false; });
        expect_nobody_dead(ring);
        std::vector<bool> part(hosts), left(hosts);
        for (uint32_t host = 0; host < hosts; ++host) part[host] = (mask >> host & 1) != 0;
        left[gone] = true;
        ring.cut_in_two(part, one_way);
        const Joined in_part = partition(ring, part);
        const auto joined = [&](uint32_t one, uint32_t other) {
          const bool was_cut = std::pair(one, other) == cut || std::pair(other, one) == cut;
          return !left[one] && !left[other] && !was_cut && in_part(one, other);
        };
        CHECK(parts_know(ring, joined, left));
      }
    }
}

TEST_CASE("ring of hosts: hosts that leave one after another take nobody for dead", "[net]") {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    HostRing ring({.hosts = 9, .per_host = 2, .seed = seed});
    REQUIRE(ring.run(second_ns, [&] { return ring.all_met(); }));
    std::mt19937_64 random(seed);
    for (const uint32_t host : shuffled_hosts(9, random)) {
      ring.leave(host);
      ring.run(seed % 2 * 100'000'000, [] { return false; });
      expect_nobody_dead(ring);
    }
  }
}

TEST_CASE("ring of hosts: a connection that was cut once makes nobody dead when hosts leave later", "[net]") {
  rondo_test::GateShare share("seeds of cuts in a ring of hosts");
  for (uint32_t hosts = 6; hosts <= 9; ++hosts)
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      if (!share.has_next()) continue;
      CAPTURE(hosts, seed);
      HostRing ring({.hosts = hosts, .seed = seed});
      REQUIRE(ring.run(second_ns, [&] { return ring.all_met(); }));
      std::mt19937_64 random(seed);
      const auto cut = cut_one(ring, shuffled_hosts(hosts, random));
      ring.run(promised_ns, [] { return false; });
      for (const uint32_t host : shuffled_hosts(hosts, random)) {
        if (host == cut.first || host == cut.second) continue;
        ring.leave(host);
        ring.run(second_ns / 2, [] { return false; });
        expect_nobody_dead(ring);
      }
    }
}

TEST_CASE("ring of hosts: hosts that do not tell what is down, or pass nothing on, are found by these tests", "[net]") {
  HostRing untold({.hosts = 8, .defect = RingDefect::no_downs});
  REQUIRE(untold.run(second_ns, [&] { return untold.all_met(); }));
  std::vector<bool> part(8);
  part[0] = part[1] = true;  // neighbours
  untold.cut_in_two(part, false);
  CHECK_FALSE(parts_know(untold, partition(untold, part), std::vector<bool>(8)));
  HostRing kept({.hosts = 8, .defect = RingDefect::no_passing_on});
  CHECK_FALSE(kept.run(promised_ns, [&] { return kept.all_met(); }));
}
