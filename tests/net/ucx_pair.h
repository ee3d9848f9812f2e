// SPDX-License-Identifier: Apache-2.0
// This file makes two ends of UCX in one process, over loopback.
#pragma once

#include <array>

#include "tests/net/network_pair.h"
#include "transports/ucx/ucx_network.h"

namespace rondo::net_test {

/// Says whether UCX is present. If it is missing, prints that once, and the test should continue without it.
[[nodiscard]] bool ucx_is_there();

/// Returns the request of rank 0 or 1.
[[nodiscard]] ucx::JoinRequest ucx_request(uint32_t rank);

/// Connects the ends. Payloads of `rendezvous_bytes` or more use rendezvous. It is the text of UCX's variable.
[[nodiscard]] NetworkPair connect_ucx_pair(const std::array<NetworkEnd, 2> &ends, const char *rendezvous_bytes);

}  // namespace rondo::net_test
