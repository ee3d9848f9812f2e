// SPDX-License-Identifier: Apache-2.0
// The control plane holds what is known about the ranks of other hosts. Up to 64 hosts, each two of them have a
// connection. Above that, each host has one with each neighbour in a ring (overlay.h), and hosts pass on what they hear
// (news.h). What arrives lies in memory that the ranks of a host share (control_memory.h), so all of them know it at
// once.
//
// The sentinel of the host's lowest rank that lives and has not left serves the connections. If it is stopped and
// nobody has served for stand_in_ns, another one does until it is back. A rank itself says under the lock what cannot
// wait: that it left, a failure, or a question.
//
// Lag      Hosts report a rank's state every heartbeat, and the operation that it entered when somebody asks.
// Life     A rank has departed when it says so. When its process ends without that, the other ranks of its host see and
//          report it. When a connection ends, the last process of the host has ended, and with it all its ranks that
//          had not left. In a ring, that holds when the last path to the host has ended. A cut cable is silent:
//          heartbeats that nobody acknowledges for a second end the connection. A stopped process is late, not dead:
//          its host acknowledges. Heartbeats pause when unread ones could fill its buffer: then keepalive probes find a
//          cut cable.
// Far      Questions and answers between hosts that are no neighbours take a shortest path, from host to host. A clock
//          is measured against the neighbour on the path to rank 0's host, which adds what it has measured itself.
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/base/config.h"
#include "src/base/unique_handle.h"
#include "src/bootstrap/bytes.h"
#include "transports/net/control_cell.h"
#include "transports/net/control_lines.h"
#include "transports/net/control_memory.h"
#include "transports/net/news.h"
#include "transports/net/overlay.h"
#include "src/links/ranks.h"

namespace rondo::net {

inline constexpr uint64_t stand_in_ns = 450'000'000;

/// The ranks of a host hold these in common.
struct ControlShare {
  ControlMemory memory;
  FileDescriptor bell;                   ///< an eventfd: wakes the rank that serves
  std::vector<FileDescriptor> sockets;  ///< by host; none of those that are no neighbours
};

struct RankStatus {
  RankState state = RankState::absent;
  uint64_t entered = 0;
  uint64_t completed = 0;
};

/// Any thread.
class Control {
 public:
  struct Parts {
    uint32_t rank = 0;
    std::vector<uint32_t> host_of;  ///< by rank
    Ranks *local = nullptr;         ///< of this host, counted as host_of has them; outlives the control plane
    ControlShare share;
    /// Called with each better measurement of the clock of rank 0's host; null if that is this host.
    std::function<void(const ClockOffset &)> clock_measured{};
    uint32_t mesh_max = mesh_hosts_max;  ///< more hosts than that are a ring
    Settings settings{};
  };
  explicit Control(Parts parts);

  [[nodiscard]] RankStatus status(uint32_t peer) const;
  /// Returns what `peer` has entered. Asks if that is not known yet; call it again later then.
  [[nodiscard]] std::optional<OperationInfo> entered(uint32_t peer, uint64_t operation);
  /// Returns what `peer`, on another host, says of its messages with this rank in one direction: not from before
  /// `since_ns`. Asks if that is not known yet; call it again later then.
  [[nodiscard]] std::optional<MessageReport> pair(uint32_t peer, bool sends, uint64_t message, uint64_t since_ns);
  /// Returns the notes of `peer`, on another host, that have arrived, and asks for others now and then.
  [[nodiscard]] std::vector<Note> notes(uint32_t peer);
  /// Sends a note of this rank to all other hosts, within the limits of tell_entered().
  void tell_note(const Note &note);
  /// Appends the ranks of other hosts whose process ended while they were alive.
  void add_dead(std::vector<uint32_t> &dead) const;
  /// Says whether `peer` has ended, or said that it left.
  [[nodiscard]] bool gone(uint32_t peer) const;
  /// Returns the end of `peer` in words: " has ended", " gave no answer for 1.0 s".
  [[nodiscard]] std::string why_dead(uint32_t peer) const;
  /// Returns whether the control connection with the host of `peer` was reset before that rank left. The rank may live.
  /// In a ring of hosts this is no loss, so the result is false.
  [[nodiscard]] bool was_reset(uint32_t peer) const;

  /// Sends what this rank has entered to all other hosts, which would otherwise have to ask. It leaves a host out if a
  /// full connection keeps the record from it, and all of them if another rank holds the lock for too long.
  void tell_entered(uint64_t operation, const OperationInfo &what);
  /// Sends the state of this host's ranks to all others, now or, if another rank serves at this moment, soon.
  void tell_status();
  /// Reports to the other hosts that this rank has left; they know it when this returns. It leaves a host out if a full
  /// connection or the host's silence keeps the report from it for 0.5 s. If a stopped rank holds the lock for as long,
  /// that rank reports it when it goes on. The last rank of a host also waits, within that time, until the kernels of
  /// the other hosts have acknowledged it.
  void tell_leaving();
  /// Reports the communicator's failure to the other hosts, within the same limits.
  void pass_on_failure();
  /// Takes what has arrived and sends what is due, if this rank is to serve.
  void step(uint64_t now_ns);
  void watch(std::vector<pollfd> &descriptors) const;

 private:
  [[nodiscard]] bool is_local(uint32_t rank) const { return parts_.host_of[rank] == host_; }
  [[nodiscard]] RemoteRank &remote(uint32_t rank) const { return parts_.share.memory.rank(rank); }
  [[nodiscard]] ControlHeader &header() const { return parts_.share.memory.header(); }
  [[nodiscard]] bool is_lowest() const;
  [[nodiscard]] bool is_to_serve(uint64_t now_ns) const;
  bool look_for_dead(bool all);
  void serve(uint64_t now_ns, bool someone_died);
  void ring();

  [[nodiscard]] bool is_deserted() const;
  void say_farewell();
  bool tell_farewell();
  /// Returns the number of cells that the states of this host's ranks take.
  [[nodiscard]] size_t own_cells() const { return (local_ranks_.size() + statuses_max - 1) / statuses_max; }
  [[nodiscard]] Cell own_status(size_t which) const;
  void send_status();
  void send_failure();
  void receive(uint32_t neighbour);
  bool take(uint32_t neighbour, ByteReader cell);
  void take_status(uint32_t neighbour, ByteReader body);
  [[nodiscard]] bool may_ask(uint64_t now_ns) const;
  void take_question(ByteReader body);
  [[nodiscard]] bool is_known(const Inquiry &inquiry) const;
  void answer(const Inquiry &asked);
  void take_record(uint32_t neighbour, ByteReader body);
  [[nodiscard]] bool is_known(const PairInquiry &inquiry) const;
  [[nodiscard]] RemotePair &pair_with(uint32_t peer, uint32_t own) const;
  void take_pair_question(ByteReader body);
  void answer(const PairInquiry &asked);
  void take_pair(ByteReader body);
  void take_note_question(ByteReader body);
  void take_note(ByteReader body);
  void take_clock(uint32_t neighbour, ByteReader body);
  void answer_clock(uint32_t neighbour, uint64_t asked_ns, uint64_t received_ns);
  void take_failure(ByteReader body);
  void send_towards(uint32_t host, const Cell &cell);

  const Parts parts_;
  const uint32_t host_;
  std::vector<uint32_t> local_ranks_;  ///< of this host, ascending
  const Overlay overlay_;
  ControlLines lines_;
  News news_;
  uint32_t index_ = 0;                 ///< of this rank in local_ranks_
  mutable std::mutex mutex_;           ///< of this rank's threads; guards what follows, and is taken before the lock
  std::vector<pollfd> processes_;      ///< by index, of the others' processes; -1 if ended, or if none is to be watched
  std::vector<bool> ended_;            ///< by index: the process has ended
  bool someone_died_ = false;          ///< since this rank last served
  uint32_t locked_out_ = 0;            ///< steps in a row in which another rank had the lock
};

}  // namespace rondo::net
