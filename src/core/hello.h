// SPDX-License-Identifier: Apache-2.0
// The first thing that the ranks of a new communicator tell each other, and what follows from it.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/config.h"
#include "src/bootstrap/store.h"
#include "src/topo/topology.h"

namespace rondo {

/// What all ranks know after meeting.
struct Meeting {
  std::vector<uint32_t> node_of;  ///< by rank: the lowest rank of its host
  uint32_t core_count = 1;        ///< cores that the ranks of this host may use, all together
  bool oversubscribed = false;    ///< more ranks than that, on some host

  /// Some host has several ranks.
  [[nodiscard]] bool shares_hosts() const {
    for (uint32_t rank = 0; rank < node_of.size(); ++rank)
      if (node_of[rank] != rank) return true;
    return false;
  }
  [[nodiscard]] bool one_host() const {
    for (const uint32_t node : node_of)
      if (node != 0) return false;
    return true;
  }
};

/// Compares versions, sizes and settings. RONDO_ERROR_MISMATCH names two ranks that differ and in what;
/// RONDO_ERROR_TIMEOUT the ranks that did not come.
[[nodiscard]] Result<Meeting> meet(Store &store, const std::string &key_prefix, uint32_t rank, uint32_t rank_count,
                                   const Settings &settings, const Topology &topology, uint64_t deadline_ns);

}  // namespace rondo
