// SPDX-License-Identifier: Apache-2.0
// This header spreads membership updates: what hosts report to each other about ranks and about their connections, and
// how a report reaches hosts that are not neighbours.
//
// Knowledge only grows. A rank's numbers grow, and its states have the order absent, alive, finalized, left or ended.
// The set of ends of connections that are down grows as well. So an update needs no number of its own. If an update
// exceeds what is known, it is kept, and due to all neighbours. If a neighbour itself reports as much about a rank, the
// update is no longer due to that neighbour. So each update takes each connection at most once in each direction, and
// the last report is the whole latest state. What a full connection did not take stays due.
//
// When     A changed state, and an end that is down, go to all neighbours at once. Numbers of operations go along the
//          tree of Overlay::parent() at the next heartbeat, or at once if ranks may wait for them (entered_step). They
//          go to all other neighbours every 2 s, in case a host of the tree is stopped. While a connection is down, all
//          neighbours are in the tree.
// Lost     A host is declared lost when no path to it remains, and at least one of its connections was reported down
//          by the other end only. The error carries the reason of the latest such report. A host whose ranks have all
//          left or ended is no path, but its connections are not down when they end. Hosts that were joined over it
//          alone send no more updates, and are not declared lost either. Their data links still report.
// Hidden   A host that ends beside a stopped host seems to be joined over that one. It is declared lost, too, if more
//          of its connections are reported down by the other ends alone than are up, and if nothing more has come down
//          for 4 s. In that time this rank must not have stood still.
// A mesh   has nothing to pass on: a connection that is down is the loss of the host.
//
// The lock of the memory guards everything here.
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

/// The operations after which a rank informs the other hosts without waiting for a heartbeat. Ranks wait for ranks that
/// are too many operations late (HostExecutor::stay_in_reach()).
inline constexpr uint64_t entered_step = recorded_operation_count / 4;

struct RankNews {
  uint32_t rank = 0;
  uint32_t state = 0;  ///< as on the wire
  uint64_t entered = 0;
  uint64_t completed = 0;
};

class News {
 public:
  /// Keeps references: all arguments must outlive the object. `host_of` is indexed by rank.
  News(const ControlMemory &memory, const Overlay &overlay, const std::vector<uint32_t> &host_of, uint32_t host);

  /// Accepts an update of a neighbour. take_down() gets the body of a cell.
  void take(uint32_t neighbour, const RankNews &news);
  void take_down(ByteReader body);
  /// Records that the connection with a neighbour has ended. `error` is errno, or 0 if the connection was closed.
  void lose(uint32_t neighbour, int error);
  /// Finds hosts that ended unseen by running hosts. Called at each heartbeat; a pause between calls restarts its wait.
  void find_hidden(uint64_t now_ns);
  /// Makes waiting updates due when their time has come, or all of them with UINT64_MAX. Called at each heartbeat.
  void call_due(uint64_t now_ns);
  /// Sends the due updates, as far as the connections take them. `limit` has the meaning of ControlLines::send().
  void tell(const ControlLines &lines, uint64_t limit = ControlLines::unheard_max);
  /// Returns the neighbour that stands for `host`, or Overlay::no_way if there is none.
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
  /// The ends that were down and the ranks that were gone when find_lost() last searched.
  std::optional<std::pair<uint64_t, uint64_t>> found_;
  std::pair<uint64_t, uint64_t> watched_;    ///< the same counts at the last call of find_hidden()
  uint64_t hidden_beat_ns_ = 0;              ///< time of the last call of find_hidden()
  uint64_t hidden_look_ns_ = UINT64_MAX;     ///< time at which it decides, if both counts stay
};

/// Makes the cell that reports the statuses of at most statuses_max ranks.
[[nodiscard]] Cell status_cell(std::span<const RankNews> statuses);

}  // namespace rondo::net
