// SPDX-License-Identifier: Apache-2.0
// This file makes ends of control connections for tests, in virtual time. A test runs both hosts of a connection, or
// one host and acts as its peer.
#pragma once

#include <sys/eventfd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "src/base/clock.h"
#include "tests/catch.h"
#include "tests/net/connected_sockets.h"
#include "tests/net/scene_ranks.h"
#include "tests/seconds.h"
#include "transports/hosts/control_share.h"
#include "transports/net/control.h"

namespace rondo::net_test {

inline constexpr uint64_t patience_ns = 60'000'000'000;

/// Two hosts with `per_host` ranks each, and one connection. Host 0 has the first ranks, and host 1 the others.
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
        socket[each] = parts.share.sockets[1 - each].get();
        controls.push_back(net::Control::make(std::move(parts)).value());
      }
    }
  }

  /// Runs the sentinels of these ranks, in virtual time, until the condition holds. Returns false if that takes more
  /// than `limit_ns`.
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
  int socket[2] = {-1, -1};  ///< by host: the last rank's socket
  std::vector<net::ControlMemory> memory;               ///< by host
  std::vector<std::unique_ptr<net::Control>> controls;  ///< by rank

 private:
  std::vector<uint32_t> host_of_;
  uint64_t now_ns_ = now_ns();
};

/// The control plane of rank 0 (or 1) only. The test is the other host, with rank 1 (or 0).
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
    control = net::Control::make(std::move(parts)).value();
  }
  void say(ByteView bytes) const {
    REQUIRE(::send(theirs.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  }
  /// Returns the next cell of this kind that the control plane has sent. The reader stands at the field after the kind.
  [[nodiscard]] ByteReader hear(net::CellKind kind) {
    for (const uint64_t until_ns = now_ns() + patience_ns; now_ns() < until_ns;) {
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
  int socket = -1;  ///< the control plane's end
  FileDescriptor theirs;
  Bytes heard = Bytes(net::cell_bytes);
  std::optional<ClockOffset> clock;
  std::unique_ptr<net::Control> control;
};

inline net::Cell status_of(uint32_t rank, RankState state, uint64_t operation) {
  net::Cell cell(net::CellKind::status);
  cell.put(uint32_t{1}).put(rank).put(static_cast<uint32_t>(state)).put(operation).put(operation);
  return cell;
}

inline std::vector<uint32_t> dead_of(const net::Control &control) {
  std::vector<uint32_t> dead;
  control.add_dead(dead);
  return dead;
}

}  // namespace rondo::net_test
