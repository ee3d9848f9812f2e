// SPDX-License-Identifier: Apache-2.0
// The communicator says whether it can exchange blocks: all_to_all, gather and scatter.
#include <string>

#include "src/core/communicator.h"
#include "src/plan/algorithm.h"

namespace rondo {

Result<void> Communicator::check_block_exchange(rondo_collective_t collective, uint32_t root) const {
  if (!capabilities_.exchanges_blocks)
    return Error{RONDO_ERROR_UNSUPPORTED, std::string("rondo_") + rondo_collective_string(collective) +
                                              " needs host memory in this version; this communicator is on device " +
                                              std::to_string(settings_.device)};
  if (group_.one_node()) return {};
  const bool with_all = !has_root(collective) || rank_ == root;
  for (uint32_t peer = 0; peer < rank_count_; ++peer) {
    if ((!with_all && peer != root) || group_.node_of(peer) == group_.node_of(rank_)) continue;
    if (links_.outgoing(0, peer).base != nullptr) continue;
    return Error{RONDO_ERROR_UNSUPPORTED,
                 std::string("rondo_") + rondo_collective_string(collective) + " needs a connection between ranks " +
                     std::to_string(rank_) + " and " + std::to_string(peer) +
                     ", which are on different hosts, and no schedule joins them; set RONDO_ALGORITHM=one_shot on all "
                     "ranks, which connects all of them",
                 static_cast<int32_t>(rank_), static_cast<int32_t>(peer)};
  }
  return {};
}

}  // namespace rondo
