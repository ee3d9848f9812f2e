// SPDX-License-Identifier: Apache-2.0
// This file declares the whole server except its sockets: the sessions of all connections, their StoreCore, and the
// choice of clients that are accepted. A StoreHub takes bytes, events and the time. It returns bytes, connections to
// close and a deadline. It has no I/O.
//
// Every connection is accepted at once, so no connection waits in the listener's queue. A connection that has not
// proved itself is a stranger. If there are too many, the server cuts strangers: first those that sent nothing, then
// those that sent a hello, the oldest first. A member sends its hello as it connects, so silent strangers never
// displace a member. Strangers that send a hello displace a member only if they fill all places before the member's
// proof arrives. A member that is cut connects again.
#pragma once

#include <memory>
#include <unordered_map>

#include "src/bootstrap/store/core.h"
#include "src/bootstrap/store/session.h"

namespace rondo {

struct HubLimits {
  size_t member_count = rank_count_max;  ///< connections that have proved themselves
  size_t silent_count = 256;     ///< connections that have not sent a hello
  size_t greeted_count = 512;    ///< connections that have sent a hello, but no proof
  StoreLimits store;
};

class StoreHub {
 public:
  explicit StoreHub(const Secret &secret, const HubLimits &limits = {}, GroupNames names = GroupNames::once)
      : secret_(secret), limits_(limits), core_(limits.store, names) {}

  /// Says whether a connection may be accepted now. If not, call can_accept() again after an event.
  [[nodiscard]] bool can_accept() const { return sessions_.size() - stranger_count() < limits_.member_count; }

  /// Accepts a new connection; call it only after can_accept(). Returns its number, which is never 0 and never used
  /// again.
  [[nodiscard]] uint64_t accept(const wire::Challenge &challenge, uint64_t now_ns);

  void receive(uint64_t connection, ByteView bytes, uint64_t now_ns);
  void closed(uint64_t connection, uint64_t now_ns);  ///< the other side closed the connection, or its socket failed

  /// Cuts a stranger because descriptors run short; take_cut() returns it. Returns false if there is none.
  bool make_room(uint64_t now_ns);

  void hosted_by(uint32_t rank, uint64_t now_ns);   ///< StoreCore::hosted_by()
  void rank_ended(uint32_t rank, uint64_t now_ns);  ///< StoreCore::rank_ended()
  void fail_all(const Error &error, uint64_t now_ns, std::optional<uint32_t> failed = {});  ///< StoreCore::fail_all()
  [[nodiscard]] std::optional<Error> take_mixed_up() { return core_.take_mixed_up(); }

  /// Ends the server. Each waiting client gets an error that says what was missing. The caller then sends the remaining
  /// output, and closes the connections.
  void end(uint64_t now_ns);

  [[nodiscard]] ByteView output(uint64_t connection) const;
  void sent(uint64_t connection, size_t bytes, uint64_t now_ns);

  [[nodiscard]] uint64_t next_deadline_ns() const;
  void on_time(uint64_t now_ns);

  struct Cut {
    uint64_t connection = 0;
    const char *reason = "";
    bool authenticated = false;
    bool other_secret = false;  ///< true if the connection's proof was wrong
  };
  [[nodiscard]] std::vector<Cut> take_cut() { return std::exchange(cut_, {}); }  ///< to be closed by the caller
  /// Returns the connections that may have new output.
  [[nodiscard]] std::vector<uint64_t> take_ready() { return std::exchange(ready_, {}); }

  [[nodiscard]] size_t connection_count() const { return sessions_.size(); }
  [[nodiscard]] size_t stranger_count() const { return silent_.size() + greeted_.size(); }
  [[nodiscard]] bool is_member(uint64_t connection) const;
  [[nodiscard]] bool has_output() const;
  [[nodiscard]] const StoreCore &core() const { return core_; }

 private:
  void deliver(const std::vector<Delivery> &deliveries, uint64_t now_ns);
  void sort(uint64_t connection, const StoreSession &session, uint64_t now_ns);
  void settle(uint64_t connection, bool was_authenticated, uint64_t now_ns);
  void evict(uint64_t stranger, uint64_t now_ns);
  void remove(uint64_t connection, uint64_t now_ns);

  Secret secret_;
  HubLimits limits_;
  StoreCore core_;
  std::unordered_map<uint64_t, std::unique_ptr<StoreSession>> sessions_;
  std::set<uint64_t> silent_;   ///< connection numbers increase, so the first is the oldest
  std::set<uint64_t> greeted_;
  std::vector<Cut> cut_;
  std::vector<uint64_t> ready_;
  uint64_t last_connection_ = 0;
};

}  // namespace rondo
