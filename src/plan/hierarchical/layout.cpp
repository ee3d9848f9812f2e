// SPDX-License-Identifier: Apache-2.0
#include "src/plan/hierarchical/layout.h"

#include <algorithm>
#include <cassert>
#include <unordered_map>

namespace rondo {

HostLayout::HostLayout(const ScheduleArgs &args) {
  assert(args.node_of.empty() || args.node_of.size() == args.rank_count);
  std::unordered_map<uint32_t, uint32_t> hosts;  // from numbers of node_of to hosts
  uint32_t host = 0;
  for (uint32_t rank = 0; rank < args.rank_count; ++rank) {
    const uint32_t node = args.node_of.empty() ? 0 : args.node_of[rank];
    // A rank is mostly on the host of the previous rank, which saves a search.
    const bool same_host = rank > 0 && (args.node_of.empty() || node == args.node_of[rank - 1]);
    if (!same_host) host = hosts.emplace(node, static_cast<uint32_t>(hosts.size())).first->second;
    if (host == ranks.size()) ranks.emplace_back();
    if (rank == args.rank) {
      own_host = host;
      own_index = static_cast<uint32_t>(ranks[host].size());
    }
    ranks[host].push_back(rank);
  }
  owner_count = args.rank_count;
  for (const auto &of_host : ranks) owner_count = std::min(owner_count, static_cast<uint32_t>(of_host.size()));
  host_count = static_cast<uint32_t>(ranks.size());
}

std::vector<uint32_t> HostLayout::neighbours() const {
  std::vector<uint32_t> others;
  for (uint32_t offset = 1; offset < own_size(); ++offset) others.push_back(rank_after(offset));
  return others;
}

HostPlace place_of(const HostLayout &layout, uint32_t rank) {
  for (uint32_t host = 0; host < layout.host_count; ++host) {
    const auto &ranks = layout.ranks[host];
    const auto found = std::lower_bound(ranks.begin(), ranks.end(), rank);
    if (found != ranks.end() && *found == rank) return {host, static_cast<uint32_t>(found - ranks.begin())};
  }
  assert(false && "no such rank");
  return {};
}

std::vector<uint32_t> ring_order(const ScheduleArgs &args) {
  std::vector<uint32_t> order;
  // If node_of ascends, each host's ranks are consecutive already: nodes are numbered by their lowest ranks.
  if (std::is_sorted(args.node_of.begin(), args.node_of.end())) return order;
  with_layout(args, [&](const HostLayout &layout) {
    for (const auto &of_host : layout.ranks) order.insert(order.end(), of_host.begin(), of_host.end());
  });
  return order;
}

}  // namespace rondo
