// SPDX-License-Identifier: Apache-2.0
// The simulated network: nodes with ranks and network ports, the classes of links between ranks, and the costs of the
// ranks' own work. It is plain data. docs/simulator.md explains the model; src/cli/sim/network_options.cpp reads it
// from a file.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/result.h"

namespace rondo::sim {

/// Times are whole picoseconds, so that sums do not depend on their order and a period can be seen to be exact.
inline constexpr double ps_per_us = 1e6;

/// The end of simulated time, 26 days. A later time counts as this one, and run() refuses to report it.
inline constexpr int64_t time_ps_max = int64_t{1} << 61;
/// Rounds a computed duration to a whole one.
[[nodiscard]] inline int64_t whole_ps(double duration_ps) {
  return duration_ps < static_cast<double>(time_ps_max) ? static_cast<int64_t>(duration_ps + 0.5) : time_ps_max;
}
/// Adds a time and a duration, or two durations. Neither operand is beyond time_ps_max.
[[nodiscard]] inline int64_t after(int64_t time_ps, int64_t by_ps) {
  return time_ps + by_ps < time_ps_max ? time_ps + by_ps : time_ps_max;
}
[[nodiscard]] Error too_long_to_tell();

enum class LinkClass : uint8_t { self, intra_node, inter_node, inter_rack };
inline constexpr size_t link_class_count = 4;
[[nodiscard]] const char *link_class_string(LinkClass link);  ///< null: no such class

/// A resource that carries one message at a time. A rank, a network port and a node have one for each direction.
enum class Sharing : uint8_t {
  pair,  ///< every directed pair of ranks has a link of its own
  rank,  ///< a rank's links share its port
  nic,   ///< the ranks behind a network port share it
  node,  ///< the ranks of a node share one; of intra_node links it is one for both directions, as a memory bus is
};
[[nodiscard]] const char *sharing_string(Sharing sharing);

/// A message of b bytes on a free link arrives latency + b / bandwidth after its start.
struct LinkCost {
  double alpha_us = 0;
  double ll_alpha_us = 0;  ///< with the protocol ll, whose data need no flag behind them
  double bandwidth_GBps = 1;
  Sharing sharing = Sharing::pair;
  /// Bytes of the burst of a limiter (token bucket) where messages leave; 0 if there is none. After idle time this many
  /// bytes pass at `peak_GBps`, before bandwidth_GBps holds.
  double burst_bytes = 0;
  double peak_GBps = 0;
};

struct SimNode {
  uint32_t rank_count = 1;
  uint32_t nic_count = 1;
  uint32_t rack = 0;

  bool operator==(const SimNode &) const = default;
};

struct Network {
  std::vector<SimNode> nodes;  ///< ranks are numbered through them in order
  std::array<LinkCost, link_class_count> links{{{0.3, 0.3, 1000, Sharing::pair},
                                                {2, 1.5, 300, Sharing::rank},
                                                {5, 4, 50, Sharing::nic},
                                                {7, 6, 50, Sharing::nic}}};
  double step_us = 0;         ///< of every slice of every step
  double reduce_GBps = 1000;  ///< bytes of one operand reduced into the first; 0 for no cost
  double reduce_send_GBps = 0;  ///< besides, bytes that a reducing step stores into a slot; 0 for no cost
  double copy_GBps = 0;       ///< bytes moved by a step that reduces nothing; 0 for no cost
  double memory_GBps = 0;     ///< bytes of the rank's own buffers, where a lane first comes to them; 0 for no cost
  uint32_t core_count = 0;    ///< of a node, which its ranks' lanes share; 0 for a core for every lane
  double switch_us = 0;       ///< a core turns from one rank to another
  uint32_t slot_count = 8;
  uint32_t slot_bytes = 128 * 1024;
  uint32_t ll_slot_bytes = 4096;
  uint32_t post_bytes = 0;            ///< the most of a one_shot of the exchange; 0 if there is none
  uint32_t exchange_chunk_bytes = 0;  ///< the most of a chunk

  [[nodiscard]] uint64_t rank_count() const;
};

/// Returns `rank_count` ranks on nodes of `node_rank_count`, with a network port for each rank of a full node. The last
/// node may have fewer ranks. `rack_node_count` nodes are a rack; 0 puts all into one.
[[nodiscard]] std::vector<SimNode> even_nodes(uint32_t rank_count, uint32_t node_rank_count, uint32_t rack_node_count);

inline constexpr uint32_t sim_rank_count_max = 1u << 20;

/// Refuses what no simulation could mean: no ranks, no bandwidth, slots that are no power of two.
[[nodiscard]] Result<void> check_network(const Network &network);

/// Where the ranks are, as tables.
class Placement {
 public:
  explicit Placement(const Network &network);

  [[nodiscard]] uint32_t rank_count() const { return static_cast<uint32_t>(node_of_.size()); }
  [[nodiscard]] uint32_t node(uint32_t rank) const { return node_of_[rank]; }
  [[nodiscard]] const std::vector<uint32_t> &node_of_ranks() const { return node_of_; }
  [[nodiscard]] uint32_t local_rank(uint32_t rank) const { return rank - first_[node_of_[rank]]; }
  [[nodiscard]] uint32_t nic(uint32_t rank) const;
  [[nodiscard]] LinkClass link_class(uint32_t from, uint32_t to) const;
  [[nodiscard]] const SimNode &node_at(uint32_t rank) const { return nodes_[node_of_[rank]]; }

 private:
  const std::vector<SimNode> &nodes_;
  std::vector<uint32_t> node_of_, first_;
};

}  // namespace rondo::sim
