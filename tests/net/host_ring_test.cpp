// SPDX-License-Identifier: Apache-2.0
// The control plane of more hosts than a mesh joins: which host knows what, how soon, and how often it is sent.
#include <errno.h>

#include <algorithm>
#include <random>

#include "tests/catch.h"
#include "tests/net/host_ring.h"

using namespace rondo;
using namespace rondo::net_test;
using net::Cell;
using net::CellKind;

namespace {

constexpr uint64_t second_ns = 1'000'000'000;
constexpr uint64_t promised_ns = 2 * second_ns;
constexpr uint64_t hidden_ns = 4 * second_ns;  // in which nothing comes of a host that a stopped one hides
constexpr uint64_t heartbeats_ns = 1'500'000'000;  // as many as there are hosts on a way
constexpr uint64_t at_once_ns = 300'000'000;       // what a way takes without waiting for a heartbeat

bool all_know(HostRing &ring, uint64_t limit_ns, uint32_t rank, uint64_t entered) {
  return ring.run(limit_ns, [&] {
    for (uint32_t host = 0; host < ring.host_count(); ++host)
      if (host != rank && ring.running(host) && ring.control(host).status(rank).entered != entered) return false;
    return true;
  });
}

}  // namespace

TEST_CASE("ring of hosts: all hosts know each other, and what one does some heartbeats later", "[net]") {
  for (uint32_t hosts = 5; hosts <= 9; ++hosts)
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      CAPTURE(hosts, seed);
      HostRing ring({.hosts = hosts, .per_host = 2, .seed = seed});
      REQUIRE(ring.run(second_ns, [&] { return ring.all_met(); }));
      ring.ranks(1).latest = {70, 80};
      CHECK(ring.run(heartbeats_ns, [&] {
        for (uint32_t host = 0; host < hosts; ++host)
          if (host != 1 && (ring.control(2 * host).status(2).entered != 70 ||
                            ring.control(2 * host + 1).status(3).completed != 80))
            return false;
        return true;
      }));
      CHECK(ring.dead_to(std::vector<bool>(hosts, true)) == std::vector<uint32_t>());
    }
}

TEST_CASE("ring of hosts: numbers that ranks may wait for are told at once, others at heartbeats", "[net]") {
  for (uint32_t hosts = 6; hosts <= 9; ++hosts)
    for (const uint64_t entered : {net::entered_step, net::entered_step - 1}) {
      CAPTURE(hosts, entered);
      HostRing ring({.hosts = hosts, .seed = hosts});
      REQUIRE(ring.run(second_ns, [&] { return ring.all_met(); }));
      ring.ranks(0).latest[0] = 1;
      REQUIRE(ring.run(second_ns, [&] { return ring.control(1).status(0).entered == 1; }));
      ring.ranks(0).latest[0] = entered;  // the next heartbeat is far
      ring.control(0).tell_status();
      // A path has two connections. Updates that wait for the heartbeat of the host between them arrive later.
      CHECK(all_know(ring, 7 * ring_step_ns, 0, entered) == (entered == net::entered_step));
      CHECK(all_know(ring, heartbeats_ns, 0, entered));
    }
}

TEST_CASE("ring of hosts: each connection carries each piece of news once each way at most, then there is silence",
          "[net]") {
  for (const RingDefect defect : {RingDefect::none, RingDefect::all_twice})
    for (uint32_t hosts = 5; hosts <= 9; ++hosts) {
      CAPTURE(hosts);
      HostRing ring({.hosts = hosts, .defect = defect});
      REQUIRE(ring.run(second_ns, [&] { return ring.all_met(); }));
      ring.run(3 * second_ns, [] { return false; });
      CHECK(ring.most_repeated() <= 1);
      ring.forget_counts();
      ring.run(3 * second_ns, [] { return false; });
      CHECK(ring.passed_on() == 0);
      ring.run(second_ns / 2, [] { return false; });  // the next turn of those beside the tree is far
      ring.ranks(0).latest[0] = 5;
      CHECK(all_know(ring, heartbeats_ns, 0, 5));
      CHECK(ring.passed_on() < hosts);  // by a tree
      ring.run(3 * second_ns, [] { return false; });
      uint32_t ways = 0;  // without the one to the host that has sent it
      for (uint32_t host = 1; host < hosts; ++host)
        ways += static_cast<uint32_t>(ring.overlay().neighbours(host).size()) - 1;
      CHECK(ring.passed_on() <= ways);
      for (const uint64_t entered : {uint64_t{6}, net::entered_step}) {  // one waits, and the next one takes it along
        ring.ranks(0).latest[0] = entered;
        ring.control(0).tell_status();
      }
      ring.run(3 * second_ns, [] { return false; });
      CHECK(ring.most_repeated() <= 1);
      ring.kill(1);
      ring.run(3 * second_ns, [] { return false; });
      CHECK(ring.most_repeated() <= 1);
      ring.forget_counts();
      ring.run(3 * second_ns, [] { return false; });
      CHECK(ring.most_repeated() == 0);
    }
}

TEST_CASE("ring of hosts: a host whose processes are killed is lost to all within 2 s", "[net]") {
  for (uint32_t hosts = 5; hosts <= 9; ++hosts)
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      CAPTURE(hosts, seed);
      HostRing ring({.hosts = hosts, .per_host = 2, .seed = seed});
      REQUIRE(ring.run(second_ns, [&] { return ring.all_met(); }));
      const auto killed = static_cast<uint32_t>(seed) % hosts;
      std::vector<bool> living(hosts, true);
      living[killed] = false;
      ring.kill(killed);
      CHECK(ring.run(promised_ns, [&] { return ring.dead_to(living) == ranks_of(living, false, 2); }));
      CHECK(ring.control(2 * ((killed + 3) % hosts)).why_dead(2 * killed) == " has ended");
    }
}

TEST_CASE("ring of hosts: connections that are cut lose no rank while there is another way", "[net]") {
  for (const bool one_way : {false, true})
    for (uint32_t hosts = 6; hosts <= 9; ++hosts) {
      CAPTURE(hosts, one_way);
      HostRing ring({.hosts = hosts, .seed = hosts});
      REQUIRE(ring.run(second_ns, [&] { return ring.all_met(); }));
      ring.cut(0, 1);
      if (!one_way) ring.cut(1, 0);
      ring.cut(0, 2);
      ring.run(3 * second_ns, [] { return false; });
      for (uint64_t entered = 1; entered <= 6; ++entered) {
        ring.ranks(1).latest[0] = entered;
        CHECK(all_know(ring, heartbeats_ns, 1, entered));
      }
      CHECK(ring.dead_to(std::vector<bool>(hosts, true)) == std::vector<uint32_t>());
    }
}

TEST_CASE("ring of hosts: a lost host has the reason of the end that was told last", "[net]") {
  HostRing ring({.hosts = 8});
  REQUIRE(ring.run(second_ns, [&] { return ring.all_met(); }));
  for (const uint32_t neighbour : ring.overlay().neighbours(3)) {
    Cell cell(CellKind::down);
    ring.say(1, 0, cell.put(neighbour).put(uint32_t{1}).put(uint32_t{3}).put(uint32_t{1 + ETIMEDOUT}));
  }
  REQUIRE(ring.run(second_ns, [&] { return ring.control(0).gone(3) && ring.control(6).gone(3); }));
  for (const uint32_t rank : {0u, 6u})
    CHECK(ring.control(rank).why_dead(3) == " gave no answer for 1.0 s; is the network between the hosts cut?");
}

TEST_CASE("ring of hosts: a rank that dies or leaves is known by all, and it alone", "[net]") {
  HostRing ring({.hosts = 8, .per_host = 3});
  REQUIRE(ring.run(second_ns, [&] { return ring.all_met(); }));
  ring.ranks(3).dead = {1};
  std::vector<bool> others(8, true);
  others[3] = false;  // which sees its own ranks itself
  CHECK(ring.run(second_ns, [&] { return ring.dead_to(others) == std::vector<uint32_t>{10}; }));
  ring.ranks(3).states[2] = RankState::left;
  ring.control(11).tell_leaving();
  CHECK(ring.run(second_ns, [&] {
    for (uint32_t host = 0; host < 8; ++host)
      if (host != 3 && ring.control(3 * host).status(11).state != RankState::left) return false;
    return true;
  }));
  CHECK(ring.dead_to(others) == std::vector<uint32_t>{10});
}

TEST_CASE("ring of hosts: a host that is killed or cut off is lost to all, though one beside it has left", "[net]") {
  for (uint32_t hosts = 6; hosts <= 9; ++hosts)
    for (uint32_t left = 1; left < hosts; ++left)
      for (const bool killed : {true, false}) {
        CAPTURE(hosts, left, killed);
        HostRing ring({.hosts = hosts, .seed = hosts});
        if (!ring.joined(0, left)) continue;
        REQUIRE(ring.run(second_ns, [&] { return ring.all_met(); }));
        ring.leave(left);
        ring.run(second_ns / 2, [] { return false; });
        std::vector<bool> living(hosts, true);
        living[0] = living[left] = false;
        if (killed) {
          ring.kill(0);
        } else {
          std::vector<bool> part(hosts);
          part[0] = true;
          ring.cut_in_two(part, false);
        }
        CHECK(ring.run(promised_ns, [&] { return ring.dead_to(living) == std::vector<uint32_t>{0}; }));
      }
}

TEST_CASE("ring of hosts: what a host has heard it tells before it leaves", "[net]") {
  HostRing ring({.hosts = 9});
  REQUIRE(ring.run(second_ns, [&] { return ring.all_met(); }));
  REQUIRE_FALSE(ring.joined(0, 3));
  ring.ranks(0).latest[0] = 5;
  const auto heard = [&](uint32_t host) { return ring.control(host).status(0).entered == 5; };
  const std::vector<uint32_t> neighbours = ring.overlay().neighbours(0);
  REQUIRE(ring.run(second_ns, [&] { return std::ranges::all_of(neighbours, heard); }));
  CHECK_FALSE(heard(3));  // the others wait for a heartbeat
  ring.set_stopped(0, true);
  for (const uint32_t host : neighbours) ring.leave(host);
  CHECK(ring.run(second_ns, [&] { return heard(3); }));
}

TEST_CASE("ring of hosts: news goes around a host that is stopped, and nobody is taken for dead", "[net]") {
  for (uint32_t stopped = 1; stopped < 8; ++stopped) {
    CAPTURE(stopped);
    HostRing ring({.hosts = 8, .seed = stopped});
    REQUIRE(ring.run(second_ns, [&] { return ring.all_met(); }));
    ring.set_stopped(stopped, true);
    ring.ranks(0).latest[0] = 12;
    CHECK(all_know(ring, 2 * promised_ns, 0, 12));
    CHECK(ring.dead_to(std::vector<bool>(8, true)) == std::vector<uint32_t>());
  }
}

TEST_CASE("ring of hosts: a death is told around a host that is stopped without waiting", "[net]") {
  std::vector<bool> others(8, true);
  others[0] = false;
  for (uint32_t stopped = 1; stopped < 8; ++stopped) {
    CAPTURE(stopped);
    HostRing ring({.hosts = 8, .per_host = 2, .seed = stopped});
    REQUIRE(ring.run(second_ns, [&] { return ring.all_met(); }));
    ring.run(2 * second_ns, [] { return false; });
    ring.set_stopped(stopped, true);
    ring.ranks(0).dead = {1};
    CHECK(ring.run(at_once_ns, [&] { return ring.dead_to(others) == std::vector<uint32_t>{1}; }));
  }
}

TEST_CASE("ring of hosts: a host that ends while one beside it is stopped is lost to the others, and it alone",
          "[net]") {
  for (uint32_t hosts = 5; hosts <= 9; ++hosts)
    for (uint32_t stopped = 1; stopped < hosts; ++stopped) {
      CAPTURE(hosts, stopped);
      HostRing ring({.hosts = hosts, .seed = stopped});
      if (!ring.joined(0, stopped)) continue;
      REQUIRE(ring.run(second_ns, [&] { return ring.all_met(); }));
      ring.set_stopped(stopped, true);
      ring.kill(0);
      std::vector<bool> others(hosts, true);
      others[0] = false;
      CHECK(ring.run(hidden_ns + promised_ns, [&] { return ring.dead_to(others) == std::vector<uint32_t>{0}; }));
      ring.set_stopped(stopped, false);
      CHECK(ring.run(promised_ns, [&] { return ring.dead_to(others) == std::vector<uint32_t>{0}; }));
      ring.run(hidden_ns, [] { return false; });
      CHECK(ring.dead_to(others) == std::vector<uint32_t>{0});
    }
}

TEST_CASE("ring of hosts: of hosts that end together beside a stopped one all are lost, one by the loss of another",
          "[net]") {
  HostRing ring({.hosts = 9});
  REQUIRE(ring.run(second_ns, [&] { return ring.all_met(); }));
  // Half of host 1's connections are with hosts 0, 2 and 3. Of host 0's, two are with such hosts.
  for (const uint32_t bad : {0u, 2u, 3u}) REQUIRE(ring.joined(1, bad));
  REQUIRE(ring.overlay().neighbours(1).size() == 6);
  REQUIRE_FALSE(ring.joined(0, 3));
  ring.set_stopped(2, true);
  for (const uint32_t host : {0u, 1u, 3u}) ring.kill(host);
  CHECK(ring.run(hidden_ns + promised_ns, [&] {
    return ring.dead_to(std::vector<bool>(9, true)) == std::vector<uint32_t>{0, 1, 3};
  }));
}

TEST_CASE("ring of hosts: hosts that all stood still take nobody for dead when they go on", "[net]") {
  for (uint32_t hosts = 5; hosts <= 9; ++hosts)
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      CAPTURE(hosts, seed);
      HostRing ring({.hosts = hosts, .seed = seed});
      REQUIRE(ring.run(second_ns, [&] { return ring.all_met(); }));
      ring.set_stopped(0, true);  // before it can report what is cut
      const std::vector<uint32_t> &neighbours = ring.overlay().neighbours(0);
      for (size_t each = 0; each + 1 < neighbours.size(); ++each) {
        ring.cut(0, neighbours[each]);
        ring.cut(neighbours[each], 0);
      }
      ring.run(promised_ns, [] { return false; });
      for (uint32_t host = 1; host < hosts; ++host) ring.set_stopped(host, true);
      ring.run(hidden_ns, [] { return false; });
      for (uint32_t host = 0; host < hosts; ++host) ring.set_stopped(host, false);
      ring.run(2 * hidden_ns, [] { return false; });
      CHECK(ring.dead_to(std::vector<bool>(hosts, true)) == std::vector<uint32_t>());
    }
}

TEST_CASE("ring of hosts: neither a stopped host beside a cut nor one with a single connection is taken for dead",
          "[net]") {
  for (uint32_t hosts = 5; hosts <= 9; ++hosts)
    for (const bool stopped : {true, false}) {
      CAPTURE(hosts, stopped);
      HostRing ring({.hosts = hosts, .seed = hosts});
      REQUIRE(ring.run(second_ns, [&] { return ring.all_met(); }));
      ring.set_stopped(0, stopped);
      const std::vector<uint32_t> &neighbours = ring.overlay().neighbours(0);
      for (size_t each = 0; each < (stopped ? 1 : neighbours.size() - 1); ++each) {
        ring.cut(0, neighbours[each]);
        ring.cut(neighbours[each], 0);
      }
      ring.run(2 * hidden_ns, [] { return false; });
      CHECK(ring.dead_to(std::vector<bool>(hosts, true)) == std::vector<uint32_t>());
      ring.set_stopped(0, false);
      ring.run(2 * hidden_ns, [] { return false; });
      CHECK(ring.dead_to(std::vector<bool>(hosts, true)) == std::vector<uint32_t>());
    }
}

TEST_CASE("ring of hosts: what a host that says nothing was not sent comes when it goes on", "[net]") {
  constexpr auto sent_max = static_cast<uint32_t>(net::ControlLines::unheard_max);
  for (uint32_t stopped = 1; stopped < 8; ++stopped) {
    CAPTURE(stopped);
    HostRing ring({.hosts = 8, .per_host = 2, .seed = stopped});
    REQUIRE(ring.run(second_ns, [&] { return ring.all_met(); }));
    ring.cut(stopped < 6 ? 6 : 1, stopped < 6 ? 7 : 2);  // from now on numbers take all connections
    ring.run(promised_ns, [] { return false; });
    ring.set_stopped(stopped, true);
    ring.forget_counts();
    for (uint64_t step = 1; step <= 1'000; ++step) {
      ring.ranks(0).latest[0] = step * net::entered_step;
      ring.control(0).tell_status();
      ring.step();
    }
    ring.ranks(0).states[1] = RankState::left;
    ring.control(1).tell_leaving();
    CHECK(ring.most_carried_to(stopped) >= sent_max);
    CHECK(ring.most_carried_to(stopped) <= sent_max + 16);  // with those before what it said last had come
    ring.forget_counts();
    ring.run(second_ns, [] { return false; });
    CHECK(ring.most_carried_to(stopped) == 0);
    CHECK(ring.control(2 * stopped).status(0).entered == 0);  // whose processes have read nothing
    ring.set_stopped(stopped, false);
    CHECK(ring.run(promised_ns, [&] {
      const auto &control = ring.control(2 * stopped);
      return control.status(0).entered == 1'000 * net::entered_step && control.status(1).state == RankState::left;
    }));
    CHECK(ring.dead_to(std::vector<bool>(8, true)) == std::vector<uint32_t>());
  }
}

TEST_CASE("ring of hosts: old news that comes late changes nothing", "[net]") {
  HostRing ring({.hosts = 8});
  REQUIRE_FALSE(ring.joined(0, 3));
  ring.ranks(3).latest[0] = 20;
  ring.run(3 * second_ns, [] { return false; });
  REQUIRE(ring.control(0).status(3).entered == 20);
  const net::RankNews old{3, static_cast<uint32_t>(RankState::absent), 19, 19};
  ring.say(1, 0, net::status_cell({&old, 1}));
  CHECK_FALSE(ring.run(second_ns, [&] {
    const net::RankStatus known = ring.control(0).status(3);
    return known.entered != 20 || known.completed != 20 || known.state != RankState::alive;
  }));
}

TEST_CASE("ring of hosts: a failure is known by all", "[net]") {
  for (uint32_t hosts = 5; hosts <= 9; ++hosts) {
    HostRing ring({.hosts = hosts});
    REQUIRE(ring.run(second_ns, [&] { return ring.all_met(); }));
    ring.ranks(2).raise({RONDO_ERROR_REMOTE, "rank 2 found it"});
    ring.control(2).pass_on_failure();
    CHECK(ring.run(second_ns, [&] {
      for (uint32_t host = 0; host < hosts; ++host)
        if (!ring.ranks(host).failed()) return false;
      return true;
    }));
  }
}

TEST_CASE("ring of hosts: a rank that leaves for its failure is not seen to have left before the failure is", "[net]") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    HostRing ring({.hosts = 9, .seed = seed});
    REQUIRE(ring.run(second_ns, [&] { return ring.all_met(); }));
    ring.ranks(2).raise({RONDO_ERROR_REMOTE, "rank 2 found it"});
    if (seed % 2 == 0) ring.control(2).pass_on_failure();  // else it had no time for that
    ring.leave(2);
    bool right = true, all = false;
    REQUIRE(ring.run(second_ns, [&] {
      all = true;
      for (uint32_t host = 0; host < 9; ++host) {
        if (host == 2) continue;
        const bool left = ring.control(host).status(2).state == RankState::left;
        right &= !left || ring.ranks(host).failed();
        all &= left;
      }
      return all;
    }));
    CHECK(right);
  }
}
