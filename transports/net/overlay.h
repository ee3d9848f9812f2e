// SPDX-License-Identifier: Apache-2.0
// This file decides which hosts have a control connection with each other. Up to a bound, all pairs of hosts have one:
// a mesh. Above the bound, hosts form a ring. Host i is connected with the hosts i + 2^k and i - 2^k, for all 2^k up to
// half of the ring. So a host has 2 log2(n) connections instead of n - 1, and reaches every host over at most log2(n)
// connections. Every host computes the same ring from the number of hosts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace rondo::net {

inline constexpr uint32_t mesh_hosts_max = 64;
/// The most neighbours of a host in a ring, two for each bit of the number of hosts. So a mask of 64 bits holds a set
/// of them.
inline constexpr uint32_t ring_neighbours_max = 64;

/// Returns the number of hosts. `host_of` is indexed by rank. Hosts are numbered from 0 without a gap.
[[nodiscard]] inline uint32_t host_count_of(const std::vector<uint32_t> &host_of) {
  return *std::ranges::max_element(host_of) + 1;
}

class Overlay {
 public:
  static constexpr uint32_t no_way = UINT32_MAX;
  /// Says whether the connection of a host with one of its neighbours is down.
  using IsDown = std::function<bool(uint32_t host, uint32_t neighbour)>;

  /// Makes a ring if there are more than `mesh_max` hosts.
  Overlay(uint32_t host_count, uint32_t mesh_max);

  [[nodiscard]] uint32_t host_count() const { return static_cast<uint32_t>(neighbours_.size()); }
  [[nodiscard]] bool is_mesh() const { return is_mesh_; }
  /// Returns the neighbours in ascending order.
  [[nodiscard]] const std::vector<uint32_t> &neighbours(uint32_t host) const { return neighbours_[host]; }
  /// Returns the index of `neighbour` in neighbours(host), or nothing if it is no neighbour.
  [[nodiscard]] std::optional<uint32_t> place(uint32_t host, uint32_t neighbour) const;

  /// Returns the neighbour that sends the updates about `origin` to `host` in a ring, if every host passes them on.
  /// These paths form a tree, so each host gets an update once. Host `origin` + d, where d may be negative, gets
  /// updates from the neighbour that is nearer to `origin` by the lowest set bit of d.
  [[nodiscard]] uint32_t parent(uint32_t origin, uint32_t host) const;

  /// Returns for each host the neighbour of `from` at which a shortest path to that host begins. The entry is no_way
  /// for `from` itself, and if no path exists.
  [[nodiscard]] std::vector<uint32_t> first_hops(uint32_t from, const IsDown &is_down) const;

 private:
  bool is_mesh_;
  std::vector<std::vector<uint32_t>> neighbours_;  ///< by host
};

}  // namespace rondo::net
