// SPDX-License-Identifier: Apache-2.0
// The links between hosts over UCX: one worker, one endpoint for each peer, an active message for each slot. Small
// payloads arrive with their header; UCX fetches large ones straight into the slot (rendezvous).
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

/// Loads UCX and asks it.
[[nodiscard]] Report look_for_ucx();

/// Makes the network; every rank of the communicator calls it. `links` are counted as they stand, and their memory
/// outlives the network. When it returns, each peer has proved itself, and messages have passed both ways.
[[nodiscard]] Result<std::unique_ptr<net::Network>> make_network(const std::vector<net::NearLink> &links,
                                                                 const JoinRequest &request, Store &store);

}  // namespace rondo::ucx
