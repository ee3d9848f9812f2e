// SPDX-License-Identifier: Apache-2.0
// This file describes the simulated network as plain data. It has nodes with ranks and network ports, classes of links
// between ranks, and the costs of the ranks' own work. docs/simulator.md explains the model. The file
// src/cli/sim/network_options.cpp reads a network from JSON.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/result.h"

namespace rondo::sim {

/// The number of picoseconds in a microsecond. Times are whole picoseconds, so sums do not depend on the order of their
/// terms, and a period can be recognised exactly.
inline constexpr double ps_per_us = 1e6;

/// The end of simulated time, 26 days. Later times are stored as this value, and run() refuses to report them.
inline constexpr int64_t time_ps_max = int64_t{1} << 61;

/// Returns the picoseconds that a byte takes at this bandwidth, where 0 stands for a bandwidth without limit.
[[nodiscard]] inline double ps_per_byte(double GBps) { return GBps > 0 ? 1e3 / GBps : 0; }

/// Rounds a duration to whole picoseconds.
[[nodiscard]] inline int64_t whole_ps(double duration_ps) {
  return duration_ps < static_cast<double>(time_ps_max) ? static_cast<int64_t>(duration_ps + 0.5) : time_ps_max;
}
/// Adds a time and a duration, or two durations. Neither argument may exceed time_ps_max.
[[nodiscard]] inline int64_t after(int64_t time_ps, int64_t by_ps) {
  return time_ps + by_ps < time_ps_max ? time_ps + by_ps : time_ps_max;
}
[[nodiscard]] Error too_long_to_tell();

enum class LinkClass : uint8_t { self, intra_node, inter_node, inter_rack };
inline constexpr size_t link_class_count = 4;
[[nodiscard]] const char *link_class_string(LinkClass link);  ///< null for an unknown class

/// The set of ranks that share a resource. Each direction has its own, which carries one message at a time.
enum class Sharing : uint8_t {
  pair,  ///< every directed pair of ranks has its own link
  rank,  ///< a rank's links share its port
  nic,   ///< the ranks of a network port share the port
  node,  ///< the ranks of a node share one resource; intra_node links use it for both directions, as a memory bus
};
[[nodiscard]] const char *sharing_string(Sharing sharing);

/// The cost of a link. A message of b bytes on a free link arrives latency + b / bandwidth after its start.
struct LinkCost {
  double alpha_us = 0;
  double ll_alpha_us = 0;  ///< latency with the protocol ll, in which no flag follows the data
  double bandwidth_GBps = 1;
  Sharing sharing = Sharing::pair;
  /// The burst, in bytes, of a rate limiter (token bucket) at the sender, or 0 if there is none. After idle time, this
  /// number of bytes passes at `peak_GBps`. After the burst, bandwidth_GBps applies.
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
  std::vector<SimNode> nodes;  ///< ranks are numbered in the order of the nodes
  std::array<LinkCost, link_class_count> links{{{0.3, 0.3, 1000, Sharing::pair},
                                                {2, 1.5, 300, Sharing::rank},
                                                {5, 4, 50, Sharing::nic},
                                                {7, 6, 50, Sharing::nic}}};
  double step_us = 0;         ///< time of every slice of every step
  double reduce_GBps = 1000;  ///< rate of reducing one operand into another; 0 for no cost
  double reduce_send_GBps = 0;  ///< rate of the extra cost if a reducing step also sends; 0 for no cost
  double copy_GBps = 0;       ///< rate of bytes that a step moves without reducing; 0 for no cost
  double memory_GBps = 0;     ///< rate of a lane's first accesses to the rank's own buffers; 0 for no cost
  uint32_t core_count = 0;    ///< cores of a node, which its ranks' lanes share; 0 gives every lane a core
  double switch_us = 0;       ///< time in which a core switches between ranks
  uint32_t slot_count = 8;
  uint32_t slot_bytes = 128 * 1024;
  uint32_t ll_slot_bytes = 4096;
  uint32_t post_bytes = 0;            ///< most bytes of a one_shot in the exchange; 0 if there is none
  uint32_t exchange_chunk_bytes = 0;  ///< most bytes of a chunk of load_store

  [[nodiscard]] uint64_t rank_count() const;
};

/// Returns `rank_count` ranks on nodes of `node_rank_count`, with a network port for each rank of a full node. The last
/// node may have fewer ranks. Racks have `rack_node_count` nodes. With 0, all nodes are in one rack.
[[nodiscard]] std::vector<SimNode> even_nodes(uint32_t rank_count, uint32_t node_rank_count, uint32_t rack_node_count);

inline constexpr uint32_t sim_rank_count_max = 1u << 20;

/// Refuses an impossible network, such as one without ranks, without bandwidth, or with 3 slots.
[[nodiscard]] Result<void> check_network(const Network &network);

/// The positions of the ranks, as tables.
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
