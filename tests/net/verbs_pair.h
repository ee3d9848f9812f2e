// SPDX-License-Identifier: Apache-2.0
// This file makes two ends of RDMA verbs in one process, over a device of this host.
#pragma once

#include <array>

#include "tests/net/network_pair.h"
#include "transports/verbs/verbs_network.h"

namespace rondo::net_test {

/// Says whether verbs are present. If they are missing, prints that once, and the test should continue without them.
[[nodiscard]] bool verbs_is_there();

/// Returns the request of one of `rank_count` ranks, each on its own host. If `settings` is null, uses the defaults.
[[nodiscard]] verbs::JoinRequest verbs_request(uint32_t rank, uint32_t rank_count = 2,
                                               const Settings *settings = nullptr);

[[nodiscard]] NetworkPair connect_verbs_pair(const std::array<NetworkEnd, 2> &ends, uint32_t pairs_per_rail);

}  // namespace rondo::net_test
