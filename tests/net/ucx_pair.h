// SPDX-License-Identifier: Apache-2.0
// Two ends of UCX in one process, over loopback.
#pragma once

#include <array>

#include "tests/net/network_pair.h"
#include "transports/ucx/network.h"

namespace rondo::net_test {

/// False: this test goes on without UCX, and says so once.
[[nodiscard]] bool ucx_is_there();

/// Of rank 0 or 1, as the test's ranks ask for it.
[[nodiscard]] ucx::JoinRequest ucx_request(uint32_t rank);

/// `rendezvous_bytes`: from how many on payloads go by rendezvous, as UCX's own variable takes it.
[[nodiscard]] NetworkPair connect_ucx_pair(const std::array<NetworkEnd, 2> &ends, const char *rendezvous_bytes);

}  // namespace rondo::net_test
