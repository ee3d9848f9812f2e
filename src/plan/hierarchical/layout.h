// SPDX-License-Identifier: Apache-2.0
// This file says which ranks are on which host, for the builders of hierarchical schedules and of rings.
#pragma once

#include <cstdint>
#include <vector>

#include "src/plan/build.h"

namespace rondo {

/// The hosts, numbered in the order of their lowest ranks. The ranks of a host are in ascending order.
struct HostLayout {
  explicit HostLayout(const ScheduleArgs &args);

  [[nodiscard]] const std::vector<uint32_t> &own_ranks() const { return ranks[own_host]; }
  [[nodiscard]] uint32_t size(uint32_t host) const { return static_cast<uint32_t>(ranks[host].size()); }
  [[nodiscard]] uint32_t own_size() const { return size(own_host); }
  /// Returns whether this rank is among the first `owner_count` ranks of its host.
  [[nodiscard]] bool owns() const { return own_index < owner_count; }
  /// Returns the rank of this host that is `offset` after this one. The first rank follows the last one.
  [[nodiscard]] uint32_t rank_after(uint32_t offset) const { return own_ranks()[(own_index + offset) % own_size()]; }
  /// Returns the other ranks of this host, beginning with the rank after this rank.
  [[nodiscard]] std::vector<uint32_t> neighbours() const;
  /// Returns the host that is `offset` after this one. The first host follows the last one.
  [[nodiscard]] uint32_t host_after(uint32_t offset) const { return (own_host + offset) % host_count; }
  /// Returns the rank of `host` that works for rank `index` of another host. It has that index, modulo the host's size.
  [[nodiscard]] uint32_t counterpart(uint32_t host, uint32_t index) const {
    return ranks[host][index % ranks[host].size()];
  }

  std::vector<std::vector<uint32_t>> ranks;  ///< ranks of each host
  uint32_t own_host = 0;
  uint32_t own_index = 0;    ///< index of this rank on its host
  uint32_t owner_count = 0;  ///< number of ranks of the smallest host
  uint32_t host_count = 0;
};

/// Calls `build` with the layout args.hosts, or if that is null, with a new layout.
template <class Build>
auto with_layout(const ScheduleArgs &args, const Build &build) {
  return args.hosts != nullptr ? build(*args.hosts) : build(HostLayout(args));
}

/// The host of a rank, and the rank's index there.
struct HostPlace {
  uint32_t host = 0, index = 0;
};
[[nodiscard]] HostPlace place_of(const HostLayout &layout, uint32_t rank);

/// Returns the ranks host by host, so that a ring leaves each host once. Empty if the ranks already have this order.
[[nodiscard]] std::vector<uint32_t> ring_order(const ScheduleArgs &args);

[[nodiscard]] Schedule build_hierarchical_reduce_scatter(const ScheduleArgs &args, const HostLayout &hosts);
[[nodiscard]] Schedule build_hierarchical_all_gather(const ScheduleArgs &args, const HostLayout &hosts);
[[nodiscard]] Schedule build_hierarchical_broadcast(const ScheduleArgs &args, const HostLayout &hosts);
[[nodiscard]] Schedule build_hierarchical_reduce(const ScheduleArgs &args, const HostLayout &hosts);

}  // namespace rondo
