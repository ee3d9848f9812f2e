// SPDX-License-Identifier: Apache-2.0
// The control plane holds what is known about the ranks of other hosts. Each pair of hosts has a connection. What
// arrives is stored in memory that the ranks of a host share (control_memory.h), so all of them know it at once.
//
// The connections of a host are served by one sentinel, which belongs to the lowest rank that lives and has not left.
// If that rank is stopped and nobody has served for stand_in_ns, another rank of the host serves until that rank
// continues. Three things cannot wait for the serving rank: that a rank left, a failure, and a question. A rank sends
// these itself, under the lock.
//
// Lag      A host reports the states of its ranks at each heartbeat. It reports a rank's operation when it is asked.
// Life     A rank that leaves reports that. If its process ends without such a report, the other ranks of its host see
//          the end and report it. When a connection ends, the last process of the host has ended. So all ranks of the
//          host that had not left are dead.
//          A cut cable sends no signal: a connection ends when heartbeats stay unacknowledged for a second. A stopped
//          process is late, not dead: its kernel still acknowledges. Heartbeats pause before unread ones could fill the
//          receiver's buffer. From then on keepalive probes detect a cut cable.
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
#include "src/proto/memory.h"
#include "transports/net/control_cell.h"
#include "transports/net/control_lines.h"
#include "transports/net/control_memory.h"
#include "src/links/ranks.h"
#include "src/links/recording.h"

namespace rondo::net {

/// The time after which a rank asks a question again that nobody has answered.
inline constexpr uint64_t ask_again_ns = 50'000'000;
inline constexpr uint64_t stand_in_ns = 450'000'000;

/// The number of operations after which a rank reports its latest one to the other hosts without being asked. Ranks
/// wait for a rank that is too many operations late (HostExecutor::stay_in_reach()).
inline constexpr uint64_t entered_step = recorded_operation_count / 4;

/// The handles that the ranks of a host share for the control plane.
struct ControlShare {
  ControlMemory memory;
  FileDescriptor bell;                   ///< an eventfd: wakes the rank that serves
  std::vector<FileDescriptor> sockets;  ///< by host; this host has none
};

struct RankStatus {
  RankState state = RankState::absent;
  uint64_t entered = 0;
  uint64_t completed = 0;
};

/// Serves and queries the control plane for one rank. Any thread may call it.
class Control {
 public:
  struct Parts {
    uint32_t rank = 0;
    std::vector<uint32_t> host_of;  ///< by rank
    Ranks *local = nullptr;         ///< ranks of this host, in their order in host_of; outlives the control plane
    ControlShare share;
    /// Receives each better measurement of the clock of rank 0's host. It is null on that host.
    std::function<void(const ClockOffset &)> clock_measured{};
    Settings settings{};
  };
  [[nodiscard]] static Result<std::unique_ptr<Control>> make(Parts parts);

  [[nodiscard]] RankStatus status(uint32_t peer) const;
  /// Returns what `peer` has entered as `operation`. If that is not known here, asks the host of `peer` and returns
  /// nothing; call again later.
  [[nodiscard]] std::optional<OperationInfo> entered(uint32_t peer, uint64_t operation);
  /// Returns the report of `peer`, a rank on another host, on its messages with this rank in one direction. The report
  /// is not older than `since_ns`. If none has arrived, asks for one and returns nothing; call again later.
  [[nodiscard]] std::optional<MessageReport> pair(uint32_t peer, bool sends, uint64_t message, uint64_t since_ns);
  /// Reads what `peer`, a rank on another host, waits for. Returns true if an answer to a question of `since_ns` or
  /// later has arrived. Otherwise asks and returns false.
  [[nodiscard]] bool waits(uint32_t peer, uint64_t since_ns, WaitReport &report);
  /// Returns those notes of `peer`, a rank on another host, that have arrived. At intervals, asks for newer notes.
  [[nodiscard]] std::vector<Note> notes(uint32_t peer);
  /// Sends a note of this rank to all other hosts. The limits of tell_entered() apply.
  void tell_note(const Note &note);
  /// Appends the ranks of other hosts whose processes ended before the ranks left.
  void add_dead(std::vector<uint32_t> &dead) const;
  /// Says whether `peer` has ended, or said that it left.
  [[nodiscard]] bool gone(uint32_t peer) const;
  /// Returns words that follow the name of `peer` and say how it ended, such as " has ended".
  [[nodiscard]] std::string why_dead(uint32_t peer) const;
  /// Says whether the control connection with the host of `peer` was reset before `peer` left. `peer` may still be
  /// alive.
  [[nodiscard]] bool was_reset(uint32_t peer) const;

  /// Sends to all other hosts what this rank has entered, so that they need not ask for it. Skips a host whose
  /// connection is full. Sends nothing if another rank holds the lock for too long.
  void tell_entered(uint64_t operation, const OperationInfo &what);
  /// Sends the states of this host's ranks to all other hosts. If another rank serves now, or if there are many hosts,
  /// this rank leaves that to the serving rank, which sends the states soon.
  void tell_status();
  /// Makes all ranks, of all hosts, serve their links of puts soon.
  void want_puts();
  [[nodiscard]] bool wants_puts() const { return memory::load_acquire(header().puts) != 0; }  // see want_puts()
  /// Reports to the other hosts that this rank has left. They have the report on return, with two exceptions:
  /// - It skips a host if a full connection or the host's silence keeps the report from it for 0.5 s.
  /// - If a stopped rank holds the lock for 0.5 s, that rank sends the report when it continues.
  ///
  /// The last rank of a host also waits, within that time, until the kernels of the other hosts have acknowledged the
  /// report.
  void tell_leaving();
  /// Reports the communicator's failure to the other hosts, within the same limits.
  void pass_on_failure();
  /// Handles the cells that have arrived and sends what is due, if this rank is the one that must serve now.
  void step(uint64_t now_ns);
  void watch(std::vector<pollfd> &descriptors) const;

 private:
  explicit Control(Parts parts);
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
  /// Returns the number of cells that the states of this host's ranks need.
  [[nodiscard]] size_t own_cells() const { return (local_ranks_.size() + statuses_max - 1) / statuses_max; }
  [[nodiscard]] Cell own_status(size_t which) const;
  void send_status();
  void send_failure();
  void look_after(uint32_t host, uint64_t now_ns);
  void receive(uint32_t host);
  void lose(uint32_t host, int error);
  bool take(uint32_t host, ByteReader cell);
  void take_status(uint32_t host, ByteReader body);
  void take_state(RemoteRank &known, uint32_t state);
  [[nodiscard]] bool may_ask(uint64_t now_ns) const;
  void take_question(uint32_t host, ByteReader body);
  [[nodiscard]] bool is_of(uint32_t host, uint32_t rank) const;
  void take_record(uint32_t host, ByteReader body);
  [[nodiscard]] RemotePair &pair_with(uint32_t peer, uint32_t own) const;
  void take_pair_question(uint32_t host, ByteReader body);
  void take_pair(uint32_t host, ByteReader body);
  void take_waits_question(uint32_t host, ByteReader body);
  void take_waits(uint32_t host, ByteReader body);
  void take_note_question(uint32_t host, ByteReader body);
  void take_note(uint32_t host, ByteReader body);
  void take_clock(uint32_t host, ByteReader body);
  void take_failure(ByteReader body);

  const Parts parts_;
  const uint32_t host_;
  std::vector<uint32_t> local_ranks_;  ///< ranks of this host, ascending
  std::vector<uint32_t> others_;       ///< all other hosts
  ControlLines lines_;
  uint32_t index_ = 0;                 ///< this rank's index in local_ranks_
  mutable std::mutex mutex_;           ///< this rank's threads take it before the lock; it protects the next members
  std::vector<pollfd> processes_;      ///< by index, handles of other processes; -1 if ended or not watched
  std::vector<bool> ended_;            ///< by index: the process has ended
  bool someone_died_ = false;          ///< true if a rank of this host has died since this rank last served
  uint32_t locked_out_ = 0;            ///< consecutive steps that found the lock held by another rank
};

}  // namespace rondo::net
