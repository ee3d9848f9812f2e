// SPDX-License-Identifier: Apache-2.0
// This file declares what a rank knows while it makes a communicator. Requests have an InitContext, so new settings
// reach transports and devices. The registry passes single settings to shm, tcp and the host executor instead.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/config.h"
#include "src/bootstrap/store/store.h"

namespace rondo {

/// A network interface of a rank's host.
struct NetworkInterface {
  std::string name;     ///< "eth0"
  std::string address;  ///< numeric address; a link-local IPv6 address ends with that host's "%interface"

  bool operator==(const NetworkInterface &) const = default;
};

/// The facts that all ranks know about a rank before they are connected (src/core/init.h). A transport exchanges
/// other facts itself, such as the GIDs of a verbs device or the capabilities of a CUDA device.
struct RankInfo {
  uint32_t node = 0;       ///< number of the node; equal for ranks that can share memory
  uint64_t process = 0;    ///< process number, as its node numbers processes
  std::string host_name;
  std::vector<uint32_t> cores{};  ///< processing units that the rank may use, as its system numbers them
  /// The interfaces that RONDO_INTERFACE selects, indexed by rail. Empty if no interface is selected.
  std::vector<NetworkInterface> interfaces{};

  /// Describes the rank as text for people: "rank 2 (host b, process 17)".
  [[nodiscard]] std::string describe(uint32_t rank) const {
    return "rank " + std::to_string(rank) + " (host " + host_name + ", process " + std::to_string(process) + ")";
  }
  bool operator==(const RankInfo &) const = default;
};

/// The node of each rank, equal on all ranks. A node is a host, or a container that does not share PID, network and
/// user namespaces with the other ranks of its host. Nodes are numbered in the order of their lowest ranks.
class GroupInfo {
 public:
  GroupInfo() = default;
  /// Computes the nodes. `place_of` is indexed by rank. Two ranks with equal numbers are on one node.
  explicit GroupInfo(std::span<const uint32_t> place_of) {
    std::vector<uint32_t> places;  // indexed by node
    for (uint32_t rank = 0; rank < place_of.size(); ++rank) {
      const auto found = std::find(places.begin(), places.end(), place_of[rank]);
      const auto node = static_cast<uint32_t>(found - places.begin());
      if (found == places.end()) {
        places.push_back(place_of[rank]);
        ranks_.emplace_back();
      }
      node_of_.push_back(node);
      index_on_node_.push_back(static_cast<uint32_t>(ranks_[node].size()));
      ranks_[node].push_back(rank);
      infos.emplace_back().node = node;
    }
  }

  [[nodiscard]] uint32_t rank_count() const { return static_cast<uint32_t>(node_of_.size()); }
  [[nodiscard]] uint32_t node_count() const { return static_cast<uint32_t>(ranks_.size()); }
  [[nodiscard]] uint32_t node_of(uint32_t rank) const { return node_of_[rank]; }
  [[nodiscard]] std::span<const uint32_t> node_of_ranks() const { return node_of_; }
  /// Returns the ranks of `node` in ascending order.
  [[nodiscard]] std::span<const uint32_t> ranks_of(uint32_t node) const { return ranks_[node]; }
  /// Returns the position of `rank` in the ranks of its node.
  [[nodiscard]] uint32_t index_on_node(uint32_t rank) const { return index_on_node_[rank]; }
  [[nodiscard]] bool one_node() const { return node_count() == 1; }

  std::vector<RankInfo> infos;  ///< indexed by rank, equal on all ranks
  /// Text for people, by node: why this rank shares no memory with the ranks of that node. It is empty for this rank's
  /// own node. The vector is empty if there is only one node.
  std::vector<std::string> apart;
  uint32_t core_count = 1;      ///< number of cores that the ranks of this rank's node may use together
  bool oversubscribed = false;  ///< true if some node has more ranks than usable cores; equal on all ranks

 private:
  std::vector<uint32_t> node_of_;
  std::vector<uint32_t> index_on_node_;
  std::vector<std::vector<uint32_t>> ranks_;  ///< indexed by node
};

/// The context in which a communicator is made. The referenced objects outlive every call that takes the context.
/// Objects that such a call makes keep no reference to it.
struct InitContext {
  uint32_t rank = 0;
  uint32_t rank_count = 1;
  const Settings &settings;  ///< the settings of this communicator
  const GroupInfo &group;
  Secret secret{};           ///< the job's secret, or a secret derived from it
  std::string key_prefix{};  ///< prefix of this communicator's keys in the store
  uint64_t deadline_ns = 0;
};

}  // namespace rondo
