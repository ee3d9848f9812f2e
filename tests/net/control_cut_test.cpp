// SPDX-License-Identifier: Apache-2.0
// These tests check how the end of a control connection is reported. The other end or a device on the way resets the
// connection, or the connection is cut in one direction.
#include <linux/filter.h>

#include <array>
#include <atomic>

#include "tests/net/control_ends.h"
#include "tests/net/scripted_network.h"
#include "transports/net/sentinel.h"
#include "transports/net/tcp_state.h"

using namespace rondo;
using namespace rondo::net_test;

namespace {

constexpr const char *no_answer = " gave no answer for 1.0 s; is the network between the hosts cut?";
constexpr const char *reset = " has ended, or its control connection was reset";

/// Drops every packet that arrives for this socket.
void lose_packets(int socket) {
  sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{1, &nothing};
  REQUIRE(::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0);
}

/// The sentinel of a rank. The test ends its control connection, and the network reports `events` of its links.
struct Watched {
  explicit Watched(std::vector<net::Event> events) : side(0) {
    side.progress =
        std::make_unique<net::Progress>(side.memory.links, std::make_unique<ScriptedNetwork>(std::move(events)));
    net::Sentinel::Hooks hooks;
    hooks.failed = [] { return false; };
    hooks.ring = [] {};
    hooks.raise = [](const Error &) {};
    hooks.raise_own = [](const Error &) {};
    hooks.raise_reset = [this](uint32_t peer) { raised.store(static_cast<int>(peer), std::memory_order_relaxed); };
    static_cast<void>(side.progress->step());  // the network's events come before the reset
    auto started = net::Sentinel::start(*end.control, *side.progress, std::move(hooks));
    REQUIRE(started.ok());
    sentinel = std::move(started).value();
  }

  OneEnd end;
  Side side;
  std::atomic<int> raised{-1};  ///< relaxed: only its value counts
  std::unique_ptr<net::Sentinel> sentinel;
};

}  // namespace

TEST_CASE("silence: the looks, repeats and probes grow with the time that is allowed", "[net]") {
  constexpr uint64_t interval_ns = second_ns / 5;
  const auto limits = [](uint64_t patience_ns) {
    const net::SilenceLimits found = net::silence_limits(patience_ns, interval_ns);
    return std::array{found.looks, found.repeats, found.probes};
  };
  CHECK(limits(second_ns) == std::array{5u, 3u, 4u});  // lost data is sent again after 0.2, 0.6 and 1.4 s
  CHECK(limits(second_ns + 1) == std::array{6u, 3u, 5u});
  CHECK(limits(2 * second_ns + second_ns / 2) == std::array{13u, 4u, 12u});
  CHECK(limits(60 * second_ns) == std::array{300u, 9u, 299u});
  CHECK(limits(600 * second_ns) == std::array{3000u, 14u, 2999u});  // from 102.4 s on, every 120 s
}

TEST_CASE("control plane: a connection that is reset is reported as that, whether reading or sending sees it first",
          "[net]") {
  for (const bool sends_first : {false, true}) {
    CAPTURE(sends_first);
    OneEnd end;
    end.say(status_of(1, RankState::alive, 1).bytes());
    REQUIRE(end.run([&] { return end.control->status(1).entered == 1; }));
    net::reset_connection(end.theirs.get());
    if (sends_first) end.control->tell_status();
    end.control->step(now_ns());
    CHECK(dead_of(*end.control) == std::vector<uint32_t>{1});
    CHECK(end.control->why_dead(1) == reset);
    CHECK(end.control->was_reset(1));
  }
}

TEST_CASE("control plane: a connection that is closed was not reset, and neither was that of a rank that left",
          "[net]") {
  OneEnd closed;
  closed.theirs.reset();
  REQUIRE(closed.run([&] { return !dead_of(*closed.control).empty(); }));
  CHECK_FALSE(closed.control->was_reset(1));
  OneEnd left;
  left.say(status_of(1, RankState::left, 1).bytes());
  REQUIRE(left.run([&] { return left.control->status(1).state == RankState::left; }));
  net::reset_connection(left.theirs.get());
  REQUIRE(left.run([&] { return left.control->gone(1); }));
  CHECK_FALSE(left.control->was_reset(1));
}

TEST_CASE("control plane: of a cut in one direction, the end that still hears the other one is told at once", "[net]") {
  TwoHosts world(1);
  REQUIRE(world.run({0, 1}, second_ns, [&] {
    return world.controls[0]->status(1).state == RankState::alive &&
           world.controls[1]->status(0).state == RankState::alive;
  }));
  lose_packets(world.socket[1]);
  for (const auto &control : world.controls) control->tell_status();
  // The kernel sends again in real time. Host 1 no longer receives anything, and gives up host 0 first.
  const uint64_t until_ns = now_ns() + patience_ns;
  while (dead_of(*world.controls[1]).empty()) {
    REQUIRE(now_ns() < until_ns);
    for (const auto &control : world.controls) control->step(now_ns());
    sleep_for_ns(5'000'000);
  }
  world.controls[0]->step(now_ns());
  CHECK(dead_of(*world.controls[0]) == std::vector<uint32_t>{1});
  CHECK(world.controls[0]->why_dead(1) == no_answer);
  CHECK(world.controls[1]->why_dead(0) == no_answer);
}

TEST_CASE("control plane: the end of a cut that is not heard says so before the kernel has sent anything again",
          "[net]") {
  OneEnd end;
  end.say(status_of(1, RankState::alive, 1).bytes());
  REQUIRE(end.run([&] { return end.control->status(1).entered == 1; }));
  lose_packets(end.theirs.get());
  for (uint64_t look = 1; look <= 4; ++look) {  // takes less real time than the kernel waits
    end.say(status_of(1, RankState::alive, look).bytes());
    end.control->step(now_ns() + look * second_ns / 5);
  }
  CHECK(dead_of(*end.control).empty());
  net::reset_connection(end.theirs.get());
  end.control->step(now_ns() + second_ns);
  CHECK(dead_of(*end.control) == std::vector<uint32_t>{1});
  CHECK(end.control->why_dead(1) == no_answer);
}

TEST_CASE("sentinel: a control connection that is reset beside links that work fails the communicator with that",
          "[net]") {
  Watched works({}), lost({{net::Event::Kind::lost, 0}});
  for (Watched *each : {&works, &lost}) net::reset_connection(each->end.theirs.get());
  for (const uint64_t until_ns = now_ns() + patience_ns; now_ns() < until_ns && works.raised.load() < 0;)
    sleep_for_ns(1'000'000);
  CHECK(works.raised.load() == 1);
  CHECK(lost.raised.load() == -1);  // no error: links are down, too, so the rank has ended
}
