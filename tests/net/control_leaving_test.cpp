// SPDX-License-Identifier: Apache-2.0
// At the end, hosts must learn that all ranks of a host have left, even if packets are lost or nobody reads them.
#include <linux/filter.h>
#include <poll.h>

#include <array>
#include <atomic>
#include <thread>

#include "tests/net/control_ends.h"
#include "tests/test_clock.h"
#include "transports/net/tcp_state.h"

using namespace rondo;
using namespace rondo::net_test;

namespace {

/// Drops every packet that arrives for this socket, until the filter is detached.
void lose_all_packets(int socket) {
  sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{1, &nothing};
  REQUIRE(::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0);
}

void find_packets(int socket) {
  const int unused = 0;  // a failure shows, because packets are still lost
  static_cast<void>(::setsockopt(socket, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof unused));
}

/// One host's end of a connection. The other end is the test.
struct Line {
  Line() : memory(net::ControlMemory::map(net::ControlMemory::create(2, 2).value().get(), 2, 2).value()), sockets(2) {
    auto ends = connected_sockets();
    sockets[1] = std::move(ends[0]);
    theirs = std::move(ends[1]);
  }
  [[nodiscard]] bool arrives() const {
    for (const uint64_t until_ns = now_ns() + patience_ns; now_ns() < until_ns && !lines.has_arrived(1);)
      sleep_for_ns(1'000'000);
    return lines.has_arrived(1);
  }

  net::ControlMemory memory;
  std::vector<FileDescriptor> sockets;  ///< by host
  FileDescriptor theirs;
  net::ControlLines lines{memory, sockets};
};

/// Loses the first packet of a host's farewell, and returns whether the farewell arrives. The control plane waits half
/// a second by a clock that is held, so the wait lasts until the kernel sends the packet again.
bool farewell_arrives() {
  OneEnd end;
  const rondo_test::HeldClock clock;
  end.say(status_of(1, RankState::alive, 1).bytes());  // host 0 leaves this unread, so its close cuts the connection
  lose_all_packets(end.theirs.get());
  std::atomic<bool> looks{false};
  std::thread finder([&] {
    looks.store(true, std::memory_order_release);  // pairs with the load below
    while (!net::is_under_way(end.socket)) sleep_for_ns(100'000);  // bounded by the farewell below
    find_packets(end.theirs.get());
  });
  while (!looks.load(std::memory_order_acquire)) yield_core();  // bounded by the thread's start
  end.ranks.states[0] = RankState::left;
  end.control->tell_leaving();
  end.control.reset();
  finder.join();
  const timeval patience{60, 0};
  REQUIRE(::setsockopt(end.theirs.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
  const ssize_t got = ::recv(end.theirs.get(), end.heard.data(), end.heard.size(), MSG_WAITALL);
  if (got != static_cast<ssize_t>(net::cell_bytes)) return false;
  ByteReader cell(end.heard);
  for (int skipped = 0; skipped < 4; ++skipped) static_cast<void>(cell.number<uint32_t>());
  return cell.number<uint32_t>() == static_cast<uint32_t>(RankState::left);
}

/// Returns whether the other end learns over a full connection that rank 0 has left. The clock is held, so the control
/// plane waits for a reader, however late.
bool leaving_is_heard_behind_much() {
  OneEnd end;
  const int small = 2'048;
  REQUIRE(::setsockopt(end.socket, SOL_SOCKET, SO_SNDBUF, &small, sizeof small) == 0);
  REQUIRE(::setsockopt(end.theirs.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small) == 0);
  // This fills both buffers until they accept nothing for longer than the kernel delays any data.
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
  const rondo_test::HeldClock clock;
  end.ranks.states[0] = RankState::left;
  end.control->tell_leaving();
  end.control.reset();
  reader.join();
  return last_state == static_cast<uint32_t>(RankState::left);
}

}  // namespace

TEST_CASE("control lines: a cell has arrived when the other host has acknowledged it", "[net]") {
  const Line line;
  CHECK(line.lines.has_arrived(1));
  lose_all_packets(line.theirs.get());
  REQUIRE(line.lines.send(1, net::Cell(net::CellKind::status)));
  sleep_for_ns(second_ns / 20);
  CHECK_FALSE(line.lines.has_arrived(1));
  find_packets(line.theirs.get());
  CHECK(line.arrives());
}

TEST_CASE("control lines: what an ended connection has not acknowledged is not waited for", "[net]") {
  Line line;
  REQUIRE(line.lines.send(1, net::Cell(net::CellKind::status)));
  REQUIRE(line.arrives());
  lose_all_packets(line.theirs.get());
  REQUIRE(line.lines.send(1, net::Cell(net::CellKind::status)));
  CHECK_FALSE(line.lines.has_arrived(1));
  line.theirs.reset();  // with an unread cell, this cuts the connection, and no data is acknowledged any more
  CHECK(line.arrives());
}

TEST_CASE("control lines: the rest of a cell is waited for, and sent when there is room", "[net]") {
  Line line;
  REQUIRE(line.lines.open().ok());
  const auto watched = [&] {
    std::vector<pollfd> descriptors;
    line.lines.watch(descriptors);
    return descriptors.size();
  };
  REQUIRE(watched() == 1);
  constexpr size_t rest = 300;  // the rest of a cell whose beginning was sent before
  line.memory.host(1).unsent_bytes = rest;
  line.memory.host(1).unsent.fill(std::byte{5});
  line.memory.header().rests = 1;
  CHECK(watched() == 2);
  line.lines.send_rests();
  CHECK(watched() == 1);
  std::vector<std::byte> bytes(net::cell_bytes);
  CHECK(::recv(line.theirs.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(rest));
}

TEST_CASE("control plane: the last rank that leaves waits until its farewell has arrived, though packets are lost",
          "[net]") {
  CHECK(farewell_arrives());
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
  CHECK(leaving_is_heard_behind_much());
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
  end.control->tell_leaving();  // is sent nevertheless
  CHECK(::recv(end.theirs.get(), end.heard.data(), end.heard.size(), 0) == static_cast<ssize_t>(net::cell_bytes));
  end.say(status_of(1, RankState::alive, 3).bytes());
  REQUIRE(end.run([&] { return end.control->status(1).entered == 3; }));
  CHECK(cells_sent() == net::ControlLines::unheard_max);
}
