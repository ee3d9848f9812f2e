// SPDX-License-Identifier: Apache-2.0
// The control plane between hosts, with the test as the ranks of each host, or as the other host's end of a connection.
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "tests/catch.h"
#include "tests/net/connected_sockets.h"
#include "tests/net/scene_ranks.h"
#include "transports/hosts/control_share.h"
#include "transports/net/control.h"

using namespace rondo;
using net::Cell;
using net::CellKind;
using rondo::net_test::connected_sockets;
using rondo::net_test::SceneRanks;

namespace {

constexpr uint64_t patience_ns = 20'000'000'000;
constexpr uint64_t second_ns = 1'000'000'000;

/// Two hosts with `per_host` ranks each, those of host 1 behind those of host 0, and one connection.
class TwoHosts {
 public:
  explicit TwoHosts(uint32_t per_host) : host{SceneRanks(per_host), SceneRanks(per_host)} {
    for (uint32_t rank = 0; rank < 2 * per_host; ++rank) host_of_.push_back(rank / per_host);
    auto [near, far] = connected_sockets();
    const int ends[2] = {near.get(), far.get()};
    for (const int each : ends) REQUIRE(hosts::set_control_options(each).ok());
    for (uint32_t each = 0; each < 2; ++each) {
      const FileDescriptor file = net::ControlMemory::create(2, 2 * per_host).value();
      const FileDescriptor bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
      memory.push_back(net::ControlMemory::map(file.get(), 2, 2 * per_host).value());
      for (uint32_t index = 0; index < per_host; ++index) {
        net::Control::Parts parts;
        parts.rank = each * per_host + index;
        parts.host_of = host_of_;
        parts.local = &host[each];
        parts.share.memory = net::ControlMemory::map(file.get(), 2, 2 * per_host).value();
        parts.share.bell.reset(::dup(bell.get()));
        parts.share.sockets.resize(2);
        parts.share.sockets[1 - each].reset(::dup(ends[each]));
        controls.push_back(std::make_unique<net::Control>(std::move(parts)));
      }
    }
  }

  /// These ranks' sentinels run, in virtual time, until the condition holds. False: it did not within `limit_ns`.
  template <class Condition>
  bool run(const std::vector<uint32_t> &ranks, uint64_t limit_ns, const Condition &condition) {
    for (const uint64_t until_ns = now_ns_ + limit_ns; now_ns_ < until_ns; now_ns_ += net::heartbeat_ns / 4) {
      for (const uint32_t rank : ranks) controls[rank]->step(now_ns_);
      if (condition()) return true;
    }
    return false;
  }
  void skip(uint64_t ns) { now_ns_ += ns; }

  SceneRanks host[2];
  std::vector<net::ControlMemory> memory;               ///< by host
  std::vector<std::unique_ptr<net::Control>> controls;  ///< by rank

 private:
  std::vector<uint32_t> host_of_;
  uint64_t now_ns_ = now_ns();
};

/// A control plane of rank 0 (or 1) alone, whose other host, with rank 1 (or 0), is the test.
struct OneEnd {
  explicit OneEnd(uint32_t own = 0) : ranks(1) {
    auto [far, near] = connected_sockets();
    socket = near.get();
    theirs = std::move(far);
    const FileDescriptor file = net::ControlMemory::create(2, 2).value();
    net::Control::Parts parts;
    parts.rank = own;
    parts.host_of = {0, 1};
    parts.local = &ranks;
    if (own != 0) parts.clock_measured = [this](const ClockOffset &offset) { clock = offset; };
    parts.share.memory = net::ControlMemory::map(file.get(), 2, 2).value();
    parts.share.bell.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    parts.share.sockets.resize(2);
    parts.share.sockets[1 - own] = std::move(near);
    control = std::make_unique<net::Control>(std::move(parts));
  }
  void say(ByteView bytes) const {
    REQUIRE(::send(theirs.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  }
  /// The next cell of this kind that the control plane has sent, behind its kind.
  [[nodiscard]] ByteReader hear(CellKind kind) {
    for (int cells = 0; cells < 1000; ++cells) {
      control->step(now_ns());
      const ssize_t got = ::recv(theirs.get(), heard.data(), heard.size(), MSG_DONTWAIT);
      ByteReader reader(heard);
      const bool whole = got == static_cast<ssize_t>(heard.size()) && reader.number<uint32_t>() == net::cell_magic;
      if (whole && reader.number<uint32_t>() == static_cast<uint32_t>(kind)) return reader;
      if (!whole) sleep_for_ns(1'000'000);
    }
    FAIL("no such cell came");
    return ByteReader(heard);
  }
  template <class Condition>
  bool run(const Condition &condition) const {
    for (const uint64_t until_ns = now_ns() + patience_ns; now_ns() < until_ns && !condition();)
      control->step(now_ns());
    return condition();
  }

  SceneRanks ranks;
  int socket = -1;  ///< the control plane's
  FileDescriptor theirs;
  Bytes heard = Bytes(net::cell_bytes);
  std::optional<ClockOffset> clock;
  std::unique_ptr<net::Control> control;
};

Cell status_of(uint32_t rank, RankState state, uint64_t operation) {
  Cell cell(CellKind::status);
  cell.put(uint32_t{1}).put(rank).put(static_cast<uint32_t>(state)).put(operation).put(operation);
  return cell;
}

std::vector<uint32_t> dead_of(const net::Control &control) {
  std::vector<uint32_t> dead;
  control.add_dead(dead);
  return dead;
}

}  // namespace

TEST_CASE("control plane: what a peer said last is read whole, though answers to it cannot be sent", "[net]") {
  OneEnd end;
  end.ranks.latest[0] = 1'000;
  for (uint64_t operation = 1; operation <= 40; ++operation)
    end.say(Cell(CellKind::ask).put(uint32_t{0}).put(operation).put(uint32_t{1}).put(uint32_t{0}).bytes());
  end.say(status_of(1, RankState::left, 7).bytes());
  end.theirs.reset();
  CHECK(end.run([&] { return end.control->status(1).state == RankState::left; }));
  CHECK(end.control->status(1).completed == 7);
  CHECK(end.run([&] { return end.control->why_dead(1) == " has ended"; }));
  CHECK(dead_of(*end.control).empty());
}

TEST_CASE("control plane: a cell that comes in pieces is taken when it is whole", "[net]") {
  OneEnd end;
  const Cell cell = status_of(1, RankState::alive, 3);
  end.say(cell.bytes().first(100));
  end.control->step(now_ns());
  CHECK(end.control->status(1).entered == 0);
  end.say(cell.bytes().subspan(100));
  CHECK(end.run([&] { return end.control->status(1).entered == 3; }));
}

TEST_CASE("control plane: a connection that ends within a cell has ended, and what is no cell is said to be none",
          "[net]") {
  OneEnd short_end;
  short_end.say(status_of(1, RankState::alive, 3).bytes().first(100));
  short_end.theirs.reset();
  CHECK(short_end.run([&] { return dead_of(*short_end.control) == std::vector<uint32_t>{1}; }));
  OneEnd strange;
  strange.say(Bytes(net::cell_bytes, std::byte{7}));
  CHECK(strange.run([&] { return dead_of(*strange.control) == std::vector<uint32_t>{1}; }));
  CHECK(strange.control->why_dead(1) == " sent what is no message of this version of Rondo");
}

TEST_CASE("control plane: what one rank of a host reads, all ranks of the host know", "[net]") {
  TwoHosts world(3);
  world.host[0].latest = {4, 5, 6};
  REQUIRE(world.run({0, 3}, second_ns, [&] { return world.controls[5]->status(2).entered == 6; }));
  for (const uint32_t rank : {3u, 4u, 5u}) {
    CHECK(world.controls[rank]->status(0).entered == 4);
    CHECK(world.controls[rank]->status(1).completed == 5);
    CHECK(world.controls[rank]->status(2).state == RankState::alive);
  }
}

TEST_CASE("control plane: a question is answered for the rank that it is about", "[net]") {
  TwoHosts world(2);
  world.host[1].latest = {40, 40};
  REQUIRE(world.run({0, 2}, second_ns, [&] { return world.controls[1]->status(3).entered == 40; }));
  std::optional<OperationInfo> known;
  CHECK(world.run({0, 2}, second_ns, [&] {
    known = world.controls[1]->entered(3, 39);
    return known.has_value();
  }));
  CHECK(known->signature.count == 1039);
  CHECK(world.controls[0]->entered(3, 38)->signature.count == 1038);  // came with it, and is there for all
  CHECK_FALSE(world.controls[1]->entered(3, 41).has_value());
}

TEST_CASE("control plane: when the rank that serves leaves, the next one does", "[net]") {
  TwoHosts world(2);
  REQUIRE(world.run({0, 2}, second_ns, [&] { return world.controls[2]->status(1).state == RankState::alive; }));
  world.host[0].states[0] = RankState::left;
  world.controls[0]->tell_leaving();
  world.controls[0].reset();
  REQUIRE(world.run({1, 2}, second_ns, [&] { return world.controls[2]->status(0).state == RankState::left; }));
  world.host[0].latest[1] = 9;
  CHECK(world.run({1, 2}, second_ns, [&] { return world.controls[3]->status(1).entered == 9; }));
  CHECK(dead_of(*world.controls[2]).empty());
  world.controls[1].reset();  // without a word: it was the last of its host
  CHECK(world.run({2}, second_ns, [&] { return dead_of(*world.controls[3]) == std::vector<uint32_t>{1}; }));
}

TEST_CASE("control plane: a rank whose process ends is told to the other hosts, and it alone", "[net]") {
  for (const uint32_t died : {0u, 1u}) {
    TwoHosts world(3);
    REQUIRE(world.run({0, 3}, second_ns, [&] { return world.controls[3]->status(2).state == RankState::alive; }));
    world.host[0].dead = {died};
    const auto runs = died == 0 ? std::vector<uint32_t>{1, 2, 3} : std::vector<uint32_t>{0, 2, 3};
    CHECK(world.run(runs, second_ns, [&] { return !dead_of(*world.controls[4]).empty(); }));
    CHECK(dead_of(*world.controls[4]) == std::vector<uint32_t>{died});
    CHECK(world.controls[5]->why_dead(died) == " has ended");
    CHECK(world.controls[5]->gone(died));
  }
}

TEST_CASE("control plane: where the rank that serves is stopped, another one does until it is back", "[net]") {
  TwoHosts world(2);
  REQUIRE(world.run({0, 1, 2}, second_ns, [&] { return world.controls[2]->status(1).state == RankState::alive; }));
  world.skip(net::stand_in_ns + net::heartbeat_ns);  // no sentinel runs meanwhile
  world.host[0].latest[1] = 5;
  CHECK(world.run({1, 2}, second_ns, [&] { return world.controls[2]->status(1).entered == 5; }));
  world.host[0].latest[1] = 6;  // the next heartbeat is the stand-in's, too
  CHECK(world.run({1, 2}, second_ns, [&] { return world.controls[2]->status(1).entered == 6; }));
  std::vector<pollfd> before, after;
  world.controls[1]->watch(before);
  CHECK_FALSE(before.empty());
  REQUIRE(world.run({0, 1, 2}, second_ns, [&] {
    after.clear();
    world.controls[1]->watch(after);
    return after.empty();
  }));
  CHECK(dead_of(*world.controls[2]).empty());
}

TEST_CASE("control plane: a lock is not taken over from a process that lives, however long it keeps it", "[net]") {
  net::ControlHeader header;
  const std::vector<bool> all_live(3);
  {
    const net::ControlLock stopped(header, 0, 0, all_live);
    REQUIRE(stopped.held());
    CHECK_FALSE(net::ControlLock(header, 1, second_ns / 5, all_live).held());
  }
  CHECK(net::ControlLock(header, 1, 0, all_live).held());
}

TEST_CASE("control plane: a lock whose holder's process has ended is taken over at once", "[net]") {
  net::ControlHeader header;
  const net::ControlLock held(header, 1, 0);
  REQUIRE(held.held());
  CHECK_FALSE(net::ControlLock(header, 0, 0, {false, false, true}).held());
  CHECK(net::ControlLock(header, 0, 0, {false, true, false}).held());
}

TEST_CASE("control plane: a rank that leaves when another has just died with the lock tells the other hosts", "[net]") {
  TwoHosts world(2);
  REQUIRE(world.run({0, 2}, second_ns, [&] { return world.controls[2]->status(1).state == RankState::alive; }));
  const net::ControlLock held(world.memory[0].header(), 0, 0);
  REQUIRE(held.held());
  world.host[0].dead = {0};  // no sentinel has looked since
  world.host[0].states[1] = RankState::left;
  world.controls[1]->tell_leaving();
  CHECK(world.run({2}, second_ns, [&] { return world.controls[2]->status(1).state == RankState::left; }));
}

TEST_CASE("control plane: a failure reaches the other hosts, whoever raises it", "[net]") {
  TwoHosts world(2);
  Error error{RONDO_ERROR_REMOTE, "rank 1 found it"};
  error.rank = 1;
  error.peer = 3;
  error.operation = 12;
  world.host[0].raise(error);
  world.controls[1]->pass_on_failure();  // not the rank that serves
  REQUIRE(world.run({2}, second_ns, [&] { return world.host[1].failed(); }));
  CHECK(world.host[1].failure().message == error.message);
  CHECK(world.host[1].failure().rank == 1);
  CHECK(world.host[1].failure().peer == 3);
  CHECK(world.host[1].failure().operation == 12);
}

TEST_CASE("control plane: the state of more ranks than a cell holds is told", "[net]") {
  TwoHosts world(net::statuses_max + 3);
  const auto last = static_cast<uint32_t>(net::statuses_max + 2);
  world.host[0].latest[last] = 8;
  const auto serving = static_cast<uint32_t>(net::statuses_max + 3);
  CHECK(world.run({0, serving}, second_ns, [&] { return world.controls[serving]->status(last).entered == 8; }));
}

TEST_CASE("control plane: the offset that a neighbour tells is added to the one that is measured", "[net]") {
  constexpr uint64_t told_offset = 5 * second_ns, told_uncertainty = 7'000;
  OneEnd end(1);
  uint64_t asked = 0;
  for (int round = 0; round < 100 && !end.clock; ++round) {  // a machine that stands still brings another question
    asked = end.hear(CellKind::clock).number<uint64_t>();
    const uint64_t received = now_ns();
    Cell answer(CellKind::clock);
    answer.put(asked).put(received).put(now_ns()).put(told_offset).put(told_uncertainty);
    end.say(answer.bytes());
    end.control->step(now_ns());
  }
  REQUIRE(end.clock.has_value());
  const uint64_t uncertainty = end.clock->uncertainty_ns;
  CHECK(uncertainty > told_uncertainty);
  CHECK(uncertainty < told_uncertainty + now_ns() - asked);
  const int64_t measured = end.clock->offset_ns - static_cast<int64_t>(told_offset);  // the two have one clock
  CHECK(measured <= static_cast<int64_t>(uncertainty));
  CHECK(-measured <= static_cast<int64_t>(uncertainty));
}

TEST_CASE("control plane: to a host that is stopped, a failure and that all ranks have left are said all the same",
          "[net]") {
  constexpr uint32_t ranks = net::statuses_max + 22;
  TwoHosts world(ranks);
  REQUIRE(world.run({0, ranks}, second_ns, [&] { return world.controls[ranks]->status(0).state == RankState::alive; }));
  for (uint64_t each = 0; each < 2 * net::ControlLines::unheard_max; ++each) world.controls[1]->tell_status();
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    if (rank == ranks - 2) {
      world.host[0].raise({RONDO_ERROR_REMOTE, "the last ones found it"});
      world.controls[rank]->pass_on_failure();
    }
    world.host[0].states[rank] = RankState::left;
    world.controls[rank]->tell_leaving();
  }
  CHECK(world.run({ranks}, second_ns, [&] {
    for (uint32_t rank = 0; rank < ranks; ++rank)
      if (world.controls[ranks]->status(rank).state != RankState::left) return false;
    return world.host[1].failed();
  }));
  for (uint32_t rank = 0; rank < ranks; ++rank) world.controls[rank].reset();
  world.run({ranks}, second_ns, [] { return false; });
  CHECK(dead_of(*world.controls[ranks]).empty());
}

TEST_CASE("control plane: that all ranks have left is said over a connection that is full, too", "[net]") {
  OneEnd end;
  const int small = 2'048;
  REQUIRE(::setsockopt(end.socket, SOL_SOCKET, SO_SNDBUF, &small, sizeof small) == 0);
  REQUIRE(::setsockopt(end.theirs.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small) == 0);
  // Until nothing more goes in, for longer than the kernel holds anything back.
  const std::vector<std::byte> filler(net::cell_bytes);
  size_t filled = 0;
  for (pollfd writable{end.socket, POLLOUT, 0}; ::poll(&writable, 1, 200) > 0;) {  // bounded by both buffers
    const ssize_t sent = ::send(end.socket, filler.data(), filler.size(), MSG_DONTWAIT);
    if (sent > 0) filled += static_cast<size_t>(sent);
  }
  uint32_t last_state = 0;
  std::thread reader([&] {
    sleep_for_ns(second_ns / 10);
    std::vector<std::byte> before(filled);
    if (::recv(end.theirs.get(), before.data(), before.size(), MSG_WAITALL) != static_cast<ssize_t>(filled)) return;
    while (::recv(end.theirs.get(), end.heard.data(), end.heard.size(), MSG_WAITALL) > 0) {
      ByteReader cell(end.heard);
      for (int skipped = 0; skipped < 4; ++skipped) static_cast<void>(cell.number<uint32_t>());
      last_state = cell.number<uint32_t>();
    }
  });
  end.ranks.states[0] = RankState::left;
  end.control->tell_leaving();
  end.control.reset();
  reader.join();
  CHECK(last_state == static_cast<uint32_t>(RankState::left));
}

TEST_CASE("control plane: a host that says nothing is sent only as much as its buffer holds", "[net]") {
  OneEnd end;
  const auto cells_sent = [&] {
    size_t bytes = 0;
    pollfd readable{end.theirs.get(), POLLIN, 0};
    for (int round = 0; round < 1'000 || ::poll(&readable, 1, 300) > 0; ++round) {
      if (round < 1'000) end.control->tell_status();
      const ssize_t got = ::recv(end.theirs.get(), end.heard.data(), end.heard.size(), MSG_DONTWAIT);
      bytes += got > 0 ? static_cast<size_t>(got) : 0;
    }
    return bytes / net::cell_bytes;
  };
  CHECK(cells_sent() == net::ControlLines::unheard_max);
  CHECK(cells_sent() == 0);
  end.ranks.states[0] = RankState::left;
  end.control->tell_leaving();  // is said all the same
  CHECK(::recv(end.theirs.get(), end.heard.data(), end.heard.size(), 0) == static_cast<ssize_t>(net::cell_bytes));
  end.say(status_of(1, RankState::alive, 3).bytes());
  REQUIRE(end.run([&] { return end.control->status(1).entered == 3; }));
  CHECK(cells_sent() == net::ControlLines::unheard_max);
}
