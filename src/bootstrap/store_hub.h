// SPDX-License-Identifier: Apache-2.0
// The whole server but for its sockets: the sessions of all connections over one StoreCore, and who may come in.
// Bytes, events and the time in; bytes, connections to close and a deadline out; no I/O.
//
// Who may come in: at most 64 connections that have not proved themselves, so that strangers cost little. When all 64
// places are taken, the oldest must have had 250 ms (a handshake over loopback takes one) before it gives way to a
// newcomer: a burst of members passes 64 at a time, and a flood of silent strangers cannot hold the door for 5 s.
#pragma once

#include <memory>
#include <unordered_map>

#include "src/bootstrap/store_core.h"
#include "src/bootstrap/store_session.h"

namespace rondo {

struct HubLimits {
  size_t connection_count = 4'096;
  size_t stranger_count = 64;
  uint64_t stranger_grace_ns = 250'000'000;
  StoreLimits store;
};

class StoreHub {
 public:
  explicit StoreHub(const Secret &secret, const HubLimits &limits = {})
      : secret_(secret), limits_(limits), core_(limits.store) {}

  /// True: a connection may be taken in now. Otherwise ask again after an event, or at next_deadline_ns().
  [[nodiscard]] bool can_accept(uint64_t now_ns) const;

  /// A connection came; only after can_accept(). Returns its number, never 0 and never used again.
  [[nodiscard]] uint64_t accept(const wire::Challenge &challenge, uint64_t now_ns);

  void receive(uint64_t connection, ByteView bytes, uint64_t now_ns);
  void closed(uint64_t connection);  ///< by the other side, or its socket failed

  /// The server ends: whoever waits is told so, and what was missing. Send the output that is left, then close.
  void end(uint64_t now_ns);

  [[nodiscard]] ByteView output(uint64_t connection) const;
  void sent(uint64_t connection, size_t bytes, uint64_t now_ns);

  [[nodiscard]] uint64_t next_deadline_ns() const;
  void on_time(uint64_t now_ns);

  struct Cut {
    uint64_t connection = 0;
    const char *reason = "";
    bool authenticated = false;
  };
  [[nodiscard]] std::vector<Cut> take_cut() { return std::exchange(cut_, {}); }  ///< to be closed by the caller
  /// Connections that may have got new output.
  [[nodiscard]] std::vector<uint64_t> take_ready() { return std::exchange(ready_, {}); }

  [[nodiscard]] size_t connection_count() const { return sessions_.size(); }
  [[nodiscard]] size_t stranger_count() const { return strangers_.size(); }
  [[nodiscard]] bool has_output() const;
  [[nodiscard]] const StoreCore &core() const { return core_; }

 private:
  void deliver(const std::vector<Delivery> &deliveries, uint64_t now_ns);
  void settle(uint64_t connection, bool was_authenticated);
  void remove(uint64_t connection);

  Secret secret_;
  HubLimits limits_;
  StoreCore core_;
  std::unordered_map<uint64_t, std::unique_ptr<StoreSession>> sessions_;
  std::map<uint64_t, uint64_t> strangers_;  ///< number -> when it came; numbers rise, so the first is the oldest
  std::vector<Cut> cut_;
  std::vector<uint64_t> ready_;
  uint64_t last_connection_ = 0;
};

}  // namespace rondo
