// SPDX-License-Identifier: Apache-2.0
// The whole server except for its sockets: the sessions of all connections over one StoreCore, and which clients may
// come in. It takes bytes, events and the time, and gives bytes, connections to close and a deadline. No I/O.
//
// Every connection is accepted at once, so that none waits in the listener's queue. When places run short, connections
// that have not proved themselves give way: first the silent ones, then those that have said hello, the oldest first. A
// member says hello as it connects, so silent strangers never push one out, however many they are. Strangers that say
// hello push a member out only if that many arrive between its hello and its proof; a member that is cut connects
// again.
#pragma once

#include <memory>
#include <unordered_map>

#include "src/bootstrap/store/core.h"
#include "src/bootstrap/store/session.h"

namespace rondo {

struct HubLimits {
  size_t member_count = 4'096;   ///< connections that have proved themselves
  size_t silent_count = 256;     ///< that have yet to say hello
  size_t greeted_count = 512;    ///< that have said hello, and have yet to prove themselves
  StoreLimits store;
};

class StoreHub {
 public:
  explicit StoreHub(const Secret &secret, const HubLimits &limits = {}, GroupNames names = GroupNames::once)
      : secret_(secret), limits_(limits), core_(limits.store, names) {}

  /// Says whether a connection may be taken in now. If not, ask again after an event.
  [[nodiscard]] bool can_accept() const { return sessions_.size() - stranger_count() < limits_.member_count; }

  /// Takes a new connection in; call it only after can_accept(). Returns its number, never 0 and never used again.
  [[nodiscard]] uint64_t accept(const wire::Challenge &challenge, uint64_t now_ns);

  void receive(uint64_t connection, ByteView bytes, uint64_t now_ns);
  void closed(uint64_t connection, uint64_t now_ns);  ///< by the other side, or its socket failed

  /// Cuts a stranger because descriptors run short; see take_cut(). Returns false if there is none.
  bool make_room(uint64_t now_ns);

  void hosted_by(uint32_t rank, uint64_t now_ns);   ///< StoreCore::hosted_by()
  void rank_ended(uint32_t rank, uint64_t now_ns);  ///< StoreCore::rank_ended()
  void fail_all(const Error &error, uint64_t now_ns);  ///< StoreCore::fail_all()
  [[nodiscard]] std::optional<Error> take_mixed_up() { return core_.take_mixed_up(); }

  /// Ends the server. Clients that wait learn that, and what was missing. Send the output that is left, then close.
  void end(uint64_t now_ns);

  [[nodiscard]] ByteView output(uint64_t connection) const;
  void sent(uint64_t connection, size_t bytes, uint64_t now_ns);

  [[nodiscard]] uint64_t next_deadline_ns() const;
  void on_time(uint64_t now_ns);

  struct Cut {
    uint64_t connection = 0;
    const char *reason = "";
    bool authenticated = false;
    bool other_secret = false;  ///< its proof was wrong
  };
  [[nodiscard]] std::vector<Cut> take_cut() { return std::exchange(cut_, {}); }  ///< to be closed by the caller
  /// Connections that may have got new output.
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
  std::set<uint64_t> silent_;   ///< numbers rise, so the first is the oldest
  std::set<uint64_t> greeted_;
  std::vector<Cut> cut_;
  std::vector<uint64_t> ready_;
  uint64_t last_connection_ = 0;
};

}  // namespace rondo
