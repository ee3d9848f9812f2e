// SPDX-License-Identifier: Apache-2.0
// The ranks of a new communicator first exchange peer info. From the infos of all ranks, each rank makes the group info
// (src/links/init_context.h).
#pragma once

#include <cstdint>
#include <string>

#include "src/base/config.h"
#include "src/bootstrap/store/store.h"
#include "src/links/init_context.h"
#include "src/topo/topology.h"

namespace rondo {

/// Exchanges peer info with all ranks through the store, and compares versions, sizes and settings. Returns
/// RONDO_ERROR_MISMATCH with the difference and two ranks that differ, or RONDO_ERROR_TIMEOUT with the ranks that did
/// not arrive.
[[nodiscard]] Result<GroupInfo> exchange_peer_info(Store &store, const std::string &key_prefix, uint32_t rank,
                                                   uint32_t rank_count, const Settings &settings,
                                                   const Topology &topology, uint64_t deadline_ns);

}  // namespace rondo
