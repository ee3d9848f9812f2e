// SPDX-License-Identifier: Apache-2.0
// Tests the control plane between hosts. The test acts as the ranks of each host, or as the other end of a connection.
#include <algorithm>
#include <memory>
#include <vector>

#include "tests/net/control_ends.h"
#include "tests/quiet_boards.h"

using namespace rondo;
using namespace rondo::net_test;
using net::Cell;
using net::CellKind;

TEST_CASE("control plane: what a peer said last is read whole, though answers to it cannot be sent", "[net]") {
  OneEnd end;
  end.ranks.latest[0] = 1'000;
  for (uint64_t operation = 1; operation <= 40; ++operation)
    end.say(Cell(CellKind::ask).put(uint32_t{0}).put(operation).bytes());
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
  CHECK(strange.control->why_dead(1) == " sent a message that this version of Rondo does not understand");
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
  CHECK(world.controls[0]->entered(3, 38)->signature.count == 1038);  // arrived with the report, for all ranks
  CHECK_FALSE(world.controls[1]->entered(3, 41).has_value());
}

TEST_CASE("control plane: a question about an operation that was not entered has no answer", "[net]") {
  OneEnd end;
  end.ranks.latest[0] = 5;
  end.say(Cell(CellKind::ask).put(net::Inquiry{0, UINT64_MAX}).bytes());
  end.say(Cell(CellKind::ask).put(net::Inquiry{0, 6}).bytes());
  end.say(Cell(CellKind::ask).put(net::Inquiry{0, 2}).bytes());
  for (uint64_t operation = 1; operation <= 2; ++operation) {
    ByteReader answer = end.hear(CellKind::record);
    CHECK(net::inquiry_of(answer).operation == operation);
  }
}

TEST_CASE("control plane: a record whose choice has unknown numbers is kept without these", "[net]") {
  OneEnd end;
  Cell record = Cell(CellKind::record).put(net::Inquiry{1, 3});
  for (uint64_t field = 0; field < 12; ++field) record.put(uint64_t{1} << 32 | (300 + field));
  end.say(status_of(1, RankState::alive, 3).bytes());
  end.say(record.bytes());
  std::optional<OperationInfo> known;
  REQUIRE(end.run([&] { return (known = end.control->entered(1, 3)).has_value(); }));
  CHECK(known->signature.root == 303);
  CHECK(known->choice.algorithm == RONDO_ALGORITHM_AUTO);
  CHECK(known->choice.protocol == RONDO_PROTOCOL_AUTO);
  CHECK(known->choice.kernel == RONDO_KERNEL_AUTO);
  CHECK(known->choice.channels == 308);
}

TEST_CASE("control plane: a failure with an unknown status or rank is an internal error of no rank", "[net]") {
  for (const uint32_t status : {0u, 1u, 16u, 1u << 31}) {
    CAPTURE(status);
    OneEnd end;
    Cell cell(CellKind::failure);
    cell.put(status).put(uint32_t{2}).put(uint32_t{1} << 31).put(uint64_t{7}).put(std::string_view("why"));
    end.say(cell.bytes());
    REQUIRE(end.run([&] { return end.ranks.failed(); }));
    CHECK(end.ranks.failure().status == RONDO_ERROR_INTERNAL);
    CHECK(end.ranks.failure().rank == -1);
    CHECK(end.ranks.failure().peer == -1);
    CHECK(end.ranks.failure().message == "why");
  }
}

TEST_CASE("control plane: an answer about waits that no question asked for is not taken", "[net]") {
  OneEnd end;
  const auto say = [&](uint64_t asked_ns, uint64_t entered) {
    Cell cell(CellKind::waits);
    cell.put(net::Inquiry{1, 0}).put(asked_ns);
    for (int field = 0; field < 2; ++field) cell.put(uint64_t{0});
    end.say(cell.put(entered).put(entered).put(uint32_t{1}).put(uint32_t{0}).bytes());
  };
  say(0, 7);
  say(UINT64_MAX, 7);
  end.say(status_of(1, RankState::alive, 3).bytes());
  REQUIRE(end.run([&] { return end.control->status(1).entered == 3; }));
  WaitReport report;
  CHECK_FALSE(end.control->waits(1, 0, report));  // sends a query
  ByteReader asked = end.hear(CellKind::ask_waits);
  CHECK(net::inquiry_of(asked).rank == 1);
  say(asked.number<uint64_t>(), 8);
  REQUIRE(end.run([&] { return end.control->waits(1, 0, report); }));
  CHECK(report.entered == 8);
}

TEST_CASE("control plane: an answer about messages serves no other question", "[net]") {
  OneEnd end;
  Cell answers[2] = {Cell(CellKind::pair), Cell(CellKind::pair)};
  for (uint64_t message = 3; message <= 4; ++message) {
    CHECK_FALSE(end.control->pair(1, false, message, 0).has_value());  // sends a query
    ByteReader asked = end.hear(CellKind::ask_pair);
    const net::Inquiry about = net::inquiry_of(asked);
    REQUIRE(about.operation == message);
    Cell &answer = answers[message - 3].put(about);
    for (int field = 0; field < 2; ++field) answer.put(asked.number<uint32_t>());  // the peer, and the sender
    answer.put(asked.number<uint64_t>());                                          // the time of the query
    for (int count = 0; count < 4; ++count) answer.put(10 * message);
    answer.put(uint32_t{0});
    for (int field = 0; field < 3; ++field) answer.put(uint32_t{0});
    for (int field = 0; field < 2; ++field) answer.put(uint64_t{0});
    answer.put(static_cast<uint32_t>(DevicePlace::Kind::messages)).put(uint64_t{5}).put(uint32_t{1});  // captured
    answer.put(uint32_t{1}).put(uint32_t{7}).put(uint32_t{1}).put(uint32_t{RONDO_INT8}).put(uint64_t{64}).put(message);
  }
  end.say(answers[1].bytes());
  end.say(answers[0].bytes());
  end.say(status_of(1, RankState::alive, 3).bytes());
  REQUIRE(end.run([&] { return end.control->status(1).entered == 3; }));
  const auto report = end.control->pair(1, false, 4, 0);
  REQUIRE(report.has_value());
  CHECK(report->pair.entered == 40);
  CHECK_FALSE(report->message.has_value());
  CHECK(report->now.device == DevicePlace{DevicePlace::Kind::messages, 5});
  CHECK(report->now.has_captured);
  CHECK(report->now.message == MessageInfo{7, true, RONDO_INT8, 64, 4});
}

namespace {

/// The boards of a host whose ranks have messages with all ranks except rank 7.
class FullBoards final : public rondo_test::QuietBoards {
 public:
  BatchCounts batches(uint32_t of) const override { return {entered + of, entered - 1}; }
  PairCounts pair(uint32_t of, uint32_t with, bool sends) const override {
    if (!sends) received_from = with;
    sends_came_first = sends_came_first || (sends && received_from != with);
    if (with == 7) return {};
    return {1000 * of + 10 * with + (sends ? 1 : 0), with};
  }
  BlockedSend blocked(uint32_t, uint32_t to) const override { return {to, to + 1}; }
  std::optional<MessageInfo> find(uint32_t, uint32_t, bool, uint64_t) const override { return std::nullopt; }

  uint64_t entered = 1;
  mutable uint32_t received_from = UINT32_MAX;  ///< the rank that last read receives
  mutable bool sends_came_first = false;
};

}  // namespace

TEST_CASE("control plane: a report on what a rank waits for comes in several cells, and answers older questions alone",
          "[net]") {
  TwoHosts world(32);
  FullBoards boards;
  world.host[1].boards = &boards;
  world.host[1].latest[3] = 40;
  WaitReport report;
  const auto ask = [&](uint64_t since_ns) {
    return world.run({0, 32}, second_ns, [&] { return world.controls[5]->waits(35, since_ns, report); });
  };
  REQUIRE(ask(0));
  CHECK((report.batches == BatchCounts{4, 0} && report.entered == 40 && report.completed == 40));
  for (uint32_t with = 0; with < 64; ++with) {
    const WaitReport::Pair &pair = report.pairs[with];
    const uint64_t entered = with == 7 ? 0 : 3000 + 10 * with;
    CHECK((pair.receives.entered == entered && pair.sends.entered == (with == 7 ? 0 : entered + 1)));
    CHECK((with == 7 || (pair.receives.completed == with && pair.blocked.needed == with + 1)));
  }
  CHECK_FALSE(boards.sends_came_first);  // receives come first, as in a search on one host
  boards.entered = 9;
  CHECK(world.controls[6]->waits(35, 0, report));  // all ranks of the host have the answer
  CHECK(report.batches == BatchCounts{4, 0});
  const uint64_t since_ns = now_ns();
  CHECK_FALSE(world.controls[5]->waits(35, since_ns, report));
  REQUIRE(ask(since_ns));
  CHECK(report.batches == BatchCounts{12, 8});
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
  world.controls[1].reset();  // without a report, as the last rank of its host
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
  world.host[0].dead = {0};  // no sentinel has polled since
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
  world.controls[1]->pass_on_failure();  // this rank does not serve
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

TEST_CASE("control plane: the offset of the clock of rank 0's host is measured", "[net]") {
  constexpr uint64_t offset = 5 * second_ns;
  OneEnd end(1);
  uint64_t asked = 0;
  while (!end.clock) {  // bounded by hear(); a slow answer causes another query
    asked = end.hear(CellKind::clock).number<uint64_t>();
    const uint64_t received = now_ns() + offset;
    Cell answer(CellKind::clock);
    answer.put(asked).put(received).put(now_ns() + offset);
    end.say(answer.bytes());
    end.control->step(now_ns());
  }
  REQUIRE(end.clock.has_value());
  const uint64_t uncertainty = end.clock->uncertainty_ns;
  CHECK(uncertainty > 0);
  CHECK(uncertainty < now_ns() - asked);
  const int64_t measured = end.clock->offset_ns - static_cast<int64_t>(offset);  // both ends use the same clock
  CHECK(measured <= static_cast<int64_t>(uncertainty));
  CHECK(-measured <= static_cast<int64_t>(uncertainty));
}
