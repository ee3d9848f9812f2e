// SPDX-License-Identifier: Apache-2.0
// This file describes what every rank knows of each other one before they are connected. The ranks exchange it
// (src/core/group_info.h); transports read it. A transport finds some facts only when it opens a device, such as GIDs
// of verbs and capabilities of a CUDA device. Its ranks exchange those among themselves.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace rondo {

/// A network interface of a rank's host.
struct NetworkInterface {
  std::string name;     ///< "eth0"
  std::string address;  ///< numeric, of that host; link-local IPv6 with its own "%interface"

  bool operator==(const NetworkInterface &) const = default;
};

struct RankInfo {
  uint32_t node = 0;       ///< equal for ranks that can share memory; counted in the order of their lowest ranks
  uint64_t process = 0;    ///< its number on its node
  std::string host_name;
  std::vector<uint32_t> cores{};  ///< the processing units that it may run on, as its system counts them
  /// The interfaces by rail, as RONDO_INTERFACE chose them; none if there is no such interface.
  std::vector<NetworkInterface> interfaces{};

  /// Describes the rank for people: "rank 2 (host b, process 17)".
  [[nodiscard]] std::string describe(uint32_t rank) const {
    return "rank " + std::to_string(rank) + " (host " + host_name + ", process " + std::to_string(process) + ")";
  }
  bool operator==(const RankInfo &) const = default;
};

/// Has the node of each rank, equal on all ranks. A node is a host, or a container that shares neither processes nor
/// network with others; nodes are counted in the order of their lowest ranks.
class GroupInfo {
 public:
  GroupInfo() = default;
  /// Fills in the node of each info. `place_of` is, by rank, a number that is equal for ranks of one node.
  explicit GroupInfo(std::span<const uint32_t> place_of);

  [[nodiscard]] uint32_t rank_count() const { return static_cast<uint32_t>(node_of_.size()); }
  [[nodiscard]] uint32_t node_count() const { return static_cast<uint32_t>(ranks_.size()); }
  [[nodiscard]] uint32_t node_of(uint32_t rank) const { return node_of_[rank]; }
  [[nodiscard]] std::span<const uint32_t> node_of_ranks() const { return node_of_; }
  /// Returns the ranks of `node` in ascending order.
  [[nodiscard]] std::span<const uint32_t> ranks_of(uint32_t node) const { return ranks_[node]; }
  /// Returns the position of `rank` in the ranks of its node.
  [[nodiscard]] uint32_t index_on_node(uint32_t rank) const { return index_on_node_[rank]; }
  [[nodiscard]] bool one_node() const { return node_count() == 1; }

  std::vector<RankInfo> infos;  ///< by rank, equal on all
  /// The reason, by node if there are several, why this rank shares no memory with its ranks, for people. Empty if it
  /// does.
  std::vector<std::string> apart;
  uint32_t core_count = 1;      ///< of this rank's node: the cores that its ranks may use, all together
  bool oversubscribed = false;  ///< on some node there are more ranks than such cores; equal on all ranks

 private:
  std::vector<uint32_t> node_of_;
  std::vector<uint32_t> index_on_node_;
  std::vector<std::vector<uint32_t>> ranks_;  ///< by node
};

}  // namespace rondo
