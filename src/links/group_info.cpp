// SPDX-License-Identifier: Apache-2.0
#include "src/links/group_info.h"

#include <algorithm>

namespace rondo {

GroupInfo::GroupInfo(std::span<const uint32_t> place_of) {
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

}  // namespace rondo
