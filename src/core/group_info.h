// SPDX-License-Identifier: Apache-2.0
// The ranks of a new communicator exchange peer info first. This file does that, and says what a rank then knows of the
// group.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/config.h"
#include "src/bootstrap/store/store.h"
#include "src/topo/topology.h"
#include "src/links/rank_info.h"

namespace rondo {

/// Where the ranks are, equal on all of them. A node is a host, or a container that shares neither processes nor
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

/// Sends the others what this rank is and has, and compares versions, sizes and settings. RONDO_ERROR_MISMATCH names
/// two ranks that differ and in what; RONDO_ERROR_TIMEOUT names the ranks that did not arrive.
[[nodiscard]] Result<GroupInfo> exchange_peer_info(Store &store, const std::string &key_prefix, uint32_t rank,
                                                   uint32_t rank_count, const Settings &settings,
                                                   const Topology &topology, uint64_t deadline_ns);

}  // namespace rondo
