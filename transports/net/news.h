// SPDX-License-Identifier: Apache-2.0
// What hosts tell each other of ranks and of their connections, and how it gets to those that are no neighbours.
//
// What is known only grows: a rank's numbers, the order absent, alive, finalized, left or ended of its states, and the
// set of ends of connections that are down. So news needs no number of its own: where what was heard is more than what
// is known, it is kept, and due to all neighbours. One that tells as much of a rank itself, as the one that told it, is
// told no more. So each piece of news takes each connection at most once each way, what is told last is the whole
// latest state, and what a full connection did not take stays due.
//
// When     A changed state, and an end that is down: to all at once. Numbers of operations: by the tree of
//          Overlay::parent(), at the next heartbeat, or at once where ranks may wait for them (entered_step); to all
//          others every 2 s, for where a host of the tree is stopped. While a connection is down, all are in the tree.
// Lost     Hosts to which no way is left are lost, where one of their connections is down as its other end alone has
//          told, with the reason of the end that was told last. A host whose ranks have all left or ended is no way,
//          but its connections are not down when they end: hosts that were joined over it alone are not heard of any
//          more, and are not taken for lost either. Their links for data still tell.
// Hidden   A host that ends beside one that is stopped seems to be joined over that one. Where more of its connections
//          are down as the other ends alone have told than are up, and nothing more has come down for 4 s, in which
//          this rank did not stand still, it is lost, too.
// A mesh   has nothing to pass on: a connection that is down is the loss of the host.
//
// All under the lock of the memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "transports/net/control_lines.h"
#include "transports/net/control_memory.h"
#include "transports/net/overlay.h"
#include "transports/recording.h"

namespace rondo::net {

inline constexpr uint64_t heartbeat_ns = 200'000'000;

/// After so many operations a rank tells the other hosts without waiting for a heartbeat: ranks wait for those that are
/// too many operations behind (HostExecutor::stay_in_reach()).
inline constexpr uint64_t entered_step = recorded_operation_count / 4;

struct RankNews {
  uint32_t rank = 0;
  uint32_t state = 0;  ///< as on the wire
  uint64_t entered = 0;
  uint64_t completed = 0;
};

class News {
 public:
  /// `host_of`: by rank. All of them outlive this.
  News(const ControlMemory &memory, const Overlay &overlay, const std::vector<uint32_t> &host_of, uint32_t host);

  /// A neighbour told it. `body`: of a cell.
  void take(uint32_t neighbour, const RankNews &news);
  void take_down(ByteReader body);
  /// The connection with a neighbour has ended. `error`: errno; 0: it was closed.
  void lose(uint32_t neighbour, int error);
  /// At each heartbeat: hosts that ended unseen by those that run. A pause between calls begins its wait anew.
  void find_hidden(uint64_t now_ns);
  /// At each heartbeat: what waits is due, where its time has come. UINT64_MAX: all of it.
  void call_due(uint64_t now_ns);
  /// Sends what is due, as far as the connections take it. `limit`: as ControlLines::send().
  void tell(const ControlLines &lines, uint64_t limit = ControlLines::unheard_max);
  /// The neighbour that is asked where `host` is meant; Overlay::no_way: none.
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
  uint64_t all_ = 0;                  ///< in a ring: the marks of all neighbours
  std::vector<uint64_t> children_;    ///< likewise, by host: the marks of those that hear of its ranks from this host
  std::vector<uint32_t> first_hops_;  ///< by host
  std::optional<std::pair<uint64_t, uint64_t>> found_;  ///< when they were found: ends that were down, ranks gone
  std::pair<uint64_t, uint64_t> watched_;    ///< likewise, at the last call of find_hidden()
  uint64_t hidden_beat_ns_ = 0;              ///< when it was called last
  uint64_t hidden_look_ns_ = UINT64_MAX;     ///< when it decides, if both stay as they are
};

/// Of statuses.size() <= statuses_max ranks.
[[nodiscard]] Cell status_cell(std::span<const RankNews> statuses);

}  // namespace rondo::net
