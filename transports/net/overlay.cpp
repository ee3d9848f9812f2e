// SPDX-License-Identifier: Apache-2.0
#include "transports/net/overlay.h"

#include <algorithm>
#include <deque>

namespace rondo::net {

Overlay::Overlay(uint32_t host_count, uint32_t mesh_max) : is_mesh_(host_count <= mesh_max), neighbours_(host_count) {
  for (uint32_t host = 0; host < host_count; ++host) {
    std::vector<uint32_t> &of_host = neighbours_[host];
    if (is_mesh_) {
      for (uint32_t other = 0; other < host_count; ++other)
        if (other != host) of_host.push_back(other);
      continue;
    }
    for (uint32_t distance = 1; distance <= host_count / 2; distance *= 2) {
      of_host.push_back((host + distance) % host_count);
      of_host.push_back((host + host_count - distance) % host_count);
    }
    std::ranges::sort(of_host);
    of_host.erase(std::unique(of_host.begin(), of_host.end()), of_host.end());  // i + n / 2 is i - n / 2: once only
  }
}

std::optional<uint32_t> Overlay::place(uint32_t host, uint32_t neighbour) const {
  const std::vector<uint32_t> &all = neighbours_[host];
  const auto found = std::ranges::lower_bound(all, neighbour);
  if (found == all.end() || *found != neighbour) return std::nullopt;
  return static_cast<uint32_t>(found - all.begin());
}

uint32_t Overlay::parent(uint32_t origin, uint32_t host) const {
  const uint32_t count = host_count();
  const uint32_t ahead = (host + count - origin) % count, behind = (count - ahead) % count;
  if (ahead <= behind) return (host + count - (ahead & (~ahead + 1))) % count;
  return (host + (behind & (~behind + 1))) % count;
}

std::vector<uint32_t> Overlay::first_hops(uint32_t from, const IsDown &is_down) const {
  std::vector<uint32_t> first(host_count(), no_way);
  std::deque<uint32_t> reached{from};
  while (!reached.empty()) {  // each host is reached once
    const uint32_t host = reached.front();
    reached.pop_front();
    for (const uint32_t next : neighbours_[host]) {
      if (next == from || first[next] != no_way || is_down(host, next)) continue;
      first[next] = host == from ? next : first[host];
      reached.push_back(next);
    }
  }
  return first;
}

}  // namespace rondo::net
