// SPDX-License-Identifier: Apache-2.0
// This file makes two ends of RDMA verbs in one process, over a device of this host.
#pragma once

#include <array>

#include "tests/net/network_pair.h"
#include "transports/verbs/verbs_network.h"

namespace rondo::net_test {

/// Returns false if verbs are missing and the test should go on without them. Prints that once.
[[nodiscard]] bool verbs_is_there();

/// Returns the request of one of `rank_count` ranks, each on its own host. If `settings` is null, uses the defaults.
[[nodiscard]] verbs::JoinRequest verbs_request(uint32_t rank, uint32_t rank_count = 2,
                                               const Settings *settings = nullptr);

[[nodiscard]] NetworkPair connect_verbs_pair(const std::array<NetworkEnd, 2> &ends, uint32_t pairs_per_rail);

}  // namespace rondo::net_test
