// SPDX-License-Identifier: Apache-2.0
// These tests run the control plane of a host that has connections with many others. The test acts as all other hosts.
#include <poll.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/net/control_ends.h"

using namespace rondo;
using namespace rondo::net_test;

namespace {

/// The control plane of rank 0, on a host of its own, and the other ends of its connections.
struct ManyEnds {
  explicit ManyEnds(uint32_t host_count) : ranks(1), theirs(host_count), held(host_count) {
    const FileDescriptor file = net::ControlMemory::create(host_count, host_count).value();
    net::Control::Parts parts;
    for (uint32_t host = 0; host < host_count; ++host) parts.host_of.push_back(host);
    parts.local = &ranks;
    parts.share.memory = net::ControlMemory::map(file.get(), host_count, host_count).value();
    parts.share.bell.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    parts.share.sockets.resize(host_count);
    for (uint32_t host = 1; host < host_count; ++host) {
      auto [far, near] = connected_sockets();
      held[host].reset(::dup(near.get()));
      theirs[host] = std::move(far);
      parts.share.sockets[host] = std::move(near);
    }
    control = net::Control::make(std::move(parts)).value();
  }
  /// Lets each host report that its rank has entered and completed this number of operations.
  void say_all(uint64_t operation) const {
    for (uint32_t host = 1; host < theirs.size(); ++host) {
      const net::Cell cell = status_of(host, RankState::alive, operation);
      const auto sent = ::send(theirs[host].get(), cell.bytes().data(), cell.bytes().size(), MSG_NOSIGNAL);
      REQUIRE((!theirs[host].valid() || sent == static_cast<ssize_t>(net::cell_bytes)));
    }
  }
  [[nodiscard]] std::vector<uint32_t> heard(uint64_t operation) const {
    std::vector<uint32_t> hosts;
    for (uint32_t host = 1; host < theirs.size(); ++host)
      if (control->status(host).entered == operation) hosts.push_back(host);
    return hosts;
  }
  template <class Condition>
  bool run(const Condition &condition) const {
    for (const uint64_t until_ns = now_ns() + patience_ns; now_ns() < until_ns && !condition();)
      control->step(now_ns());
    return condition();
  }
  /// Says whether the rank that serves the connections has work.
  [[nodiscard]] bool wakes() const {
    std::vector<pollfd> descriptors;
    control->watch(descriptors);
    return ::poll(descriptors.data(), descriptors.size(), 0) > 0;
  }

  SceneRanks ranks;
  std::vector<FileDescriptor> theirs, held;  ///< by host; other ranks of the host keep `held` open
  std::unique_ptr<net::Control> control;
};

}  // namespace

TEST_CASE("control plane: of many hosts each is heard, and those that end are lost alone and wake nobody any more",
          "[net]") {
  constexpr uint32_t host_count = 200;  // the system reports their events in several parts
  ManyEnds ends(host_count);
  ends.say_all(1);
  REQUIRE(ends.run([&] { return ends.heard(1).size() == host_count - 1; }));
  const std::vector<uint32_t> ended{7, 70, 150};
  for (const uint32_t host : ended) ends.theirs[host].reset();
  REQUIRE(ends.run([&] { return dead_of(*ends.control) == ended; }));
  ends.say_all(2);
  REQUIRE(ends.run([&] { return ends.heard(2).size() == host_count - 1 - ended.size(); }));
  CHECK(ends.heard(1) == ended);
  CHECK(dead_of(*ends.control) == ended);
  ends.control->step(now_ns());
  CHECK_FALSE(ends.wakes());
  ends.say_all(3);
  CHECK(ends.run([&] { return ends.heard(3).size() == host_count - 1 - ended.size(); }));
}

TEST_CASE("control plane: a heartbeat reports to a part of many hosts, and each of them has its turn", "[net]") {
  constexpr uint32_t host_count = 200, turns = 4, heartbeats = 12;
  ManyEnds ends(host_count);
  std::vector<uint32_t> reports(host_count);
  const uint64_t begun_ns = now_ns() / net::heartbeat_ns * net::heartbeat_ns;
  for (uint32_t beat = 0; beat < heartbeats; ++beat) {
    ends.control->step(begun_ns + beat * net::heartbeat_ns * 3 / 2);  // late each time, as on a busy machine
    uint32_t at_once = 0;
    for (uint32_t host = 1; host < host_count; ++host) {
      Bytes cell(net::cell_bytes);
      if (::recv(ends.theirs[host].get(), cell.data(), cell.size(), MSG_DONTWAIT) <= 0) continue;
      ++at_once;
      ++reports[host];
    }
    CHECK(at_once <= 64);
  }
  for (uint32_t host = 1; host < host_count; ++host) CHECK(reports[host] == heartbeats / turns);
}

TEST_CASE("control plane: among many hosts the ranks of each are asked for notes", "[net]") {
  constexpr uint32_t host_count = 200;
  ManyEnds ends(host_count);
  std::vector<bool> asked(host_count);
  asked[0] = true;
  const auto hear = [&](uint32_t host) {
    Bytes cell(net::cell_bytes);
    while (::recv(ends.theirs[host].get(), cell.data(), cell.size(), MSG_DONTWAIT) > 0) {
      ByteReader reader(cell);
      static_cast<void>(reader.number<uint32_t>());
      if (reader.number<uint32_t>() == static_cast<uint32_t>(net::CellKind::ask_notes)) asked[host] = true;
    }
  };
  const auto ask_all = [&] {
    sleep_for_ns(second_ns / 16);  // from here on, a host may ask again
    for (uint32_t rank = 1; rank < host_count; ++rank) CHECK(ends.control->notes(rank).empty());
    for (uint32_t host = 1; host < host_count; ++host) hear(host);
    return std::ranges::count(asked, true) == host_count;
  };
  CHECK(ends.run(ask_all));
}

TEST_CASE("control plane: many hosts get the states at most once in an interval", "[net]") {
  constexpr uint32_t host_count = 100;
  ManyEnds ends(host_count);
  const auto reports = [&] {
    uint32_t count = 0;
    Bytes cell(net::cell_bytes);
    for (uint32_t host = 1; host < host_count; ++host)
      while (::recv(ends.theirs[host].get(), cell.data(), cell.size(), MSG_DONTWAIT) > 0) ++count;
    return count;
  };
  const uint64_t begun_ns = now_ns();
  ends.control->step(begun_ns);  // a heartbeat
  static_cast<void>(reports());
  ends.control->tell_status();
  CHECK(reports() == 0);
  CHECK(ends.wakes());
  ends.control->step(begun_ns + 1);
  CHECK(reports() == host_count - 1);
  ends.control->tell_status();
  ends.control->step(begun_ns + 2);
  CHECK(reports() == 0);
  CHECK_FALSE(ends.wakes());
  ends.control->step(begun_ns + net::heartbeat_ns);
  CHECK(reports() == host_count - 1);
}

TEST_CASE("control plane: among many hosts a rank is asked for an operation that it has not reported yet", "[net]") {
  ManyEnds ends(100);
  CHECK_FALSE(ends.control->entered(7, 3).has_value());
  Bytes cell(net::cell_bytes);
  REQUIRE(::recv(ends.theirs[7].get(), cell.data(), cell.size(), 0) == static_cast<ssize_t>(cell.size()));
  ByteReader asked(cell);
  CHECK(asked.number<uint32_t>() == net::cell_magic);
  CHECK(asked.number<uint32_t>() == static_cast<uint32_t>(net::CellKind::ask));
  CHECK(net::inquiry_of(asked).operation == 3);
}

TEST_CASE("control plane: the interval of reports grows with the number of hosts", "[net]") {
  CHECK(report_interval_ns(1) == heartbeat_ns);
  CHECK(report_interval_ns(65) == heartbeat_ns);
  CHECK(report_interval_ns(66) == 2 * heartbeat_ns);
  CHECK(report_interval_ns(1024) == 16 * heartbeat_ns);
}

TEST_CASE("control plane: a host that says nothing among many wakes nobody, and a report does", "[net]") {
  ManyEnds ends(3);
  ends.control->step(now_ns());
  CHECK_FALSE(ends.wakes());
  ends.say_all(1);
  for (const uint64_t until_ns = now_ns() + patience_ns; now_ns() < until_ns && !ends.wakes();) yield_core();
  CHECK(ends.wakes());
}
