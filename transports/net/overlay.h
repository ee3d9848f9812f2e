// SPDX-License-Identifier: Apache-2.0
// Which hosts have a control connection with each other. Up to a bound each two have one: a mesh. Above it hosts stand
// in a ring, and host i is joined with the hosts i + 2^k and i - 2^k for each 2^k up to half of the ring: 2 log2(n)
// connections in place of n - 1, and no host is more than log2(n) of them away. Every host computes the same, from the
// number of hosts alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace rondo::net {

inline constexpr uint32_t mesh_hosts_max = 64;
/// Of a host in a ring: two for each bit of the number of hosts, so that a set of them is a mask of 64 bits.
inline constexpr uint32_t ring_neighbours_max = 64;

/// `host_of`: by rank; hosts are counted from 0 on, without a gap.
[[nodiscard]] inline uint32_t host_count_of(const std::vector<uint32_t> &host_of) {
  return *std::ranges::max_element(host_of) + 1;
}

class Overlay {
 public:
  static constexpr uint32_t no_way = UINT32_MAX;
  /// Asked of a host and one of its neighbours: their connection is down.
  using IsDown = std::function<bool(uint32_t host, uint32_t neighbour)>;

  /// More hosts than `mesh_max` are no mesh.
  Overlay(uint32_t host_count, uint32_t mesh_max);

  [[nodiscard]] uint32_t host_count() const { return static_cast<uint32_t>(neighbours_.size()); }
  [[nodiscard]] bool is_mesh() const { return is_mesh_; }
  /// Ascending.
  [[nodiscard]] const std::vector<uint32_t> &neighbours(uint32_t host) const { return neighbours_[host]; }
  /// The place of `neighbour` in neighbours(host); none: it is no neighbour.
  [[nodiscard]] std::optional<uint32_t> place(uint32_t host, uint32_t neighbour) const;

  /// In a ring: from which neighbour `host` hears what `origin` tells, while every host passes it on. These ways are a
  /// tree: each host is told once. A host `origin` + d, where d may be negative, hears from the one that is nearer by
  /// the lowest bit of d.
  [[nodiscard]] uint32_t parent(uint32_t origin, uint32_t host) const;

  /// By host: the neighbour of `from` at which a shortest way to it begins; no_way: there is none, or it is `from`.
  [[nodiscard]] std::vector<uint32_t> first_hops(uint32_t from, const IsDown &is_down) const;

 private:
  bool is_mesh_;
  std::vector<std::vector<uint32_t>> neighbours_;  ///< by host
};

}  // namespace rondo::net
