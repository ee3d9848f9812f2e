// SPDX-License-Identifier: Apache-2.0
// This header spreads membership updates: what hosts report to each other about ranks and about their connections, and
// how a report reaches hosts that are not neighbours.
//
// Knowledge only grows. The operation numbers of a rank grow, and its state only advances: absent, alive, finalized,
// left or ended. The set of connection ends that are down grows, too. So an update needs no number. A host stores an
// update that exceeds its knowledge, and owes it to all neighbours. When a neighbour reports at least as much about the
// rank, the host no longer owes it to that neighbour. So an update takes each connection at most once in each
// direction. If a connection is full, the update stays due, and its latest version is sent later.
//
// When     A changed state, and an end that is down, go to all neighbours at once. Operation numbers go along the tree
//          of Overlay::parent() at the next heartbeat, or at once if ranks may wait for them (entered_step). In case a
//          host of the tree is stopped, the numbers also go to all other neighbours every 2 s. While a connection is
//          down, every neighbour counts as part of the tree.
// Lost     A host is declared lost when no path to it remains, and at least one of its connections was reported down
//          by the other end only. The error carries the reason of the latest such report. When all ranks of a host have
//          left or ended, paths do not lead over that host, but its connections do not count as down. Hosts that were
//          reachable only over that host send no more updates, but they are not declared lost. Their data links still
//          report losses.
// Hidden   If a host ends while a neighbour of it is stopped, a path over that neighbour still seems to exist. The
//          ended host is also declared lost if most of its connections are reported down by the other ends only, and
//          no further report arrives for 4 s. This rank must not have stood still in that time.
// A mesh   passes nothing on: a connection that is down means that the host is lost.
//
// The lock of the control memory guards everything here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "transports/net/control_lines.h"
#include "transports/net/control_memory.h"
#include "transports/net/overlay.h"
#include "src/links/recording.h"

namespace rondo::net {

/// A rank informs the other hosts at once each time it has entered this number of operations. Ranks wait for a rank
/// that is too many operations late (HostExecutor::stay_in_reach()).
inline constexpr uint64_t entered_step = recorded_operation_count / 4;

struct RankNews {
  uint32_t rank = 0;
  uint32_t state = 0;  ///< as on the wire
  uint64_t entered = 0;
  uint64_t completed = 0;
};

class News {
 public:
  /// Keeps references to all arguments, which must outlive this object. `host_of` is indexed by rank.
  News(const ControlMemory &memory, const Overlay &overlay, const std::vector<uint32_t> &host_of, uint32_t host);

  /// Stores an update that came from a neighbour.
  void take(uint32_t neighbour, const RankNews &news);
  void take_down(ByteReader body);
  /// Records that the connection with a neighbour has ended. `error` is errno, or 0 if the connection was closed.
  void lose(uint32_t neighbour, int error);
  /// Finds hosts that ended while a stopped neighbour hides it. Call this at each heartbeat. A pause between calls
  /// restarts the wait.
  void find_hidden(uint64_t now_ns);
  /// Marks waiting updates as due when their time has come; UINT64_MAX marks all. Call this at each heartbeat.
  void call_due(uint64_t now_ns);
  /// Sends the due updates until a connection is full. `limit` has the meaning of ControlLines::send().
  void tell(const ControlLines &lines, uint64_t limit = ControlLines::unheard_max);
  /// Returns the first neighbour on a path to `host`, or Overlay::no_way if no path exists.
  [[nodiscard]] uint32_t first_hop(uint32_t host);

 private:
  [[nodiscard]] ControlHeader &header() const { return memory_.header(); }
  [[nodiscard]] uint64_t mark_of(uint32_t neighbour) const { return uint64_t{1} << *overlay_.place(host_, neighbour); }
  [[nodiscard]] uint64_t next_of(uint32_t rank) const;
  [[nodiscard]] bool told_down(uint32_t host, uint32_t neighbour) const;
  [[nodiscard]] bool is_down(uint32_t host, uint32_t neighbour) const;
  [[nodiscard]] std::vector<bool> gone_hosts() const;
  [[nodiscard]] std::vector<bool> ended_hosts() const;
  [[nodiscard]] bool is_cut_off(uint32_t host, const std::vector<bool> &part) const;
  [[nodiscard]] bool is_hidden(uint32_t host, const std::vector<bool> &ended) const;
  void mark_due(uint32_t neighbour, const RankNews &news, RemoteRank &known);
  void add_down(uint32_t host, uint32_t place, uint64_t reason);
  void find_lost();
  void mark_lost(const std::vector<bool> &hosts, uint64_t reason);
  bool tell_downs(const ControlLines &lines, uint32_t neighbour, uint64_t limit);
  bool tell_ranks(const ControlLines &lines, uint32_t neighbour, uint64_t limit);

  const ControlMemory &memory_;
  const Overlay &overlay_;
  const std::vector<uint32_t> &host_of_;
  const uint32_t host_;
  uint64_t all_ = 0;                  ///< in a ring, the marks of all neighbours
  std::vector<uint64_t> children_;    ///< in a ring, by host: the neighbours that this host informs about its ranks
  std::vector<uint32_t> first_hops_;  ///< by host
  /// The numbers of down ends and of gone ranks when find_lost() last searched.
  std::optional<std::pair<uint64_t, uint64_t>> found_;
  std::pair<uint64_t, uint64_t> watched_;    ///< the same counts at the last call of find_hidden()
  uint64_t hidden_beat_ns_ = 0;              ///< time of the last call of find_hidden()
  uint64_t hidden_look_ns_ = UINT64_MAX;     ///< time at which it decides, if both counts stay the same
};

/// Makes a cell that reports the states of up to statuses_max ranks.
[[nodiscard]] Cell status_cell(std::span<const RankNews> statuses);

}  // namespace rondo::net
