// SPDX-License-Identifier: Apache-2.0
// This file declares links between hosts over UCX. A rank has one worker, and one endpoint for each peer. A slot is an
// active message. Small payloads arrive with their header; UCX fetches large ones straight into the slot (rendezvous).
#pragma once

#include <memory>
#include <vector>

#include "transports/net.h"
#include "transports/ucx/handshake.h"

namespace rondo::ucx {

/// The facts that `rondo info` prints about UCX.
struct Report {
  bool built = false;
  bool found = false;
  std::string version;
  std::vector<std::string> transports;  ///< with their devices: "tcp/eth0"
  bool takes_cuda_memory = false;
  std::string why_not;
};

/// Loads UCX and queries it.
[[nodiscard]] Report look_for_ucx();

/// Makes the network; every rank of the communicator calls it. The network numbers `links` in their order, and their
/// memory outlives the network. When the call returns, each peer has proved itself, and messages have passed both ways.
[[nodiscard]] Result<std::unique_ptr<net::Network>> make_network(const std::vector<net::NearLink> &links,
                                                                 const JoinRequest &request, Store &store);

}  // namespace rondo::ucx
