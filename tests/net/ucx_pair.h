// SPDX-License-Identifier: Apache-2.0
// Two ends of UCX in one process, over loopback.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "tests/net/meeting_store.h"
#include "transports/net.h"
#include "transports/ucx/network.h"

namespace rondo::net_test {

/// False: this test goes on without UCX, and says so once.
[[nodiscard]] bool ucx_is_there();

/// Of rank 0 or 1, as the test's ranks ask for it.
[[nodiscard]] ucx::JoinRequest ucx_request(uint32_t rank);

struct UcxPair {
  std::unique_ptr<MeetingStore> store = std::make_unique<MeetingStore>();
  std::array<std::unique_ptr<net::Network>, 2> networks;
};

/// `rendezvous_bytes`: from how many on payloads go by rendezvous, as UCX's own variable takes it.
[[nodiscard]] UcxPair connect_ucx_pair(const std::vector<net::NearLink> &first,
                                       const std::vector<net::NearLink> &second, const char *rendezvous_bytes);

}  // namespace rondo::net_test
