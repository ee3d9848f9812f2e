// SPDX-License-Identifier: Apache-2.0
// This file decides which hosts have a control connection with each other. Up to a bound each two have one: a mesh.
// Above it hosts stand in a ring. Host i is joined with the hosts i + 2^k and i - 2^k, where 2^k is at most half of the
// ring. So a host has 2 log2(n) connections in place of n - 1, and no host is more than log2(n) of them away. Every
// host computes the same, from the number of hosts alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace rondo::net {

inline constexpr uint32_t mesh_hosts_max = 64;
/// A host in a ring has two neighbours for each bit of the number of hosts, so that a set of them is a mask of 64 bits.
inline constexpr uint32_t ring_neighbours_max = 64;

/// Returns the number of hosts. `host_of` is indexed by rank; hosts are counted from 0 on, without a gap.
[[nodiscard]] inline uint32_t host_count_of(const std::vector<uint32_t> &host_of) {
  return *std::ranges::max_element(host_of) + 1;
}

class Overlay {
 public:
  static constexpr uint32_t no_way = UINT32_MAX;
  /// Says whether the connection of a host with one of its neighbours is down.
  using IsDown = std::function<bool(uint32_t host, uint32_t neighbour)>;

  /// More hosts than `mesh_max` are no mesh.
  Overlay(uint32_t host_count, uint32_t mesh_max);

  [[nodiscard]] uint32_t host_count() const { return static_cast<uint32_t>(neighbours_.size()); }
  [[nodiscard]] bool is_mesh() const { return is_mesh_; }
  /// Returns the neighbours in ascending order.
  [[nodiscard]] const std::vector<uint32_t> &neighbours(uint32_t host) const { return neighbours_[host]; }
  /// Returns the place of `neighbour` in neighbours(host); none if it is no neighbour.
  [[nodiscard]] std::optional<uint32_t> place(uint32_t host, uint32_t neighbour) const;

  /// Returns the neighbour from which `host` hears the updates of `origin` in a ring, while every host passes them on.
  /// These paths are a tree: each host gets an update once. A host `origin` + d, where d may be negative, hears from
  /// the neighbour that is nearer by the lowest bit of d.
  [[nodiscard]] uint32_t parent(uint32_t origin, uint32_t host) const;

  /// Returns, by host, the neighbour of `from` at which a shortest path to it begins. The entry is no_way if no path
  /// exists, and for `from` itself.
  [[nodiscard]] std::vector<uint32_t> first_hops(uint32_t from, const IsDown &is_down) const;

 private:
  bool is_mesh_;
  std::vector<std::vector<uint32_t>> neighbours_;  ///< by host
};

}  // namespace rondo::net
