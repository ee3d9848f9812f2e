// SPDX-License-Identifier: Apache-2.0
// The links between hosts over RDMA verbs: for each peer a queue pair (reliable connection) on each rail, or several,
// and for each rail one completion queue. The format of their messages is in transports/verbs/wire.h.
#pragma once

#include <memory>
#include <vector>

#include "transports/net.h"
#include "transports/verbs/peer_info.h"

namespace rondo::verbs {

/// The facts that `rondo info` prints about verbs.
struct Report {
  bool built = false;
  bool found = false;  ///< libibverbs is there
  // These say how verbs would reach memory of a CUDA device.
  bool registers_dmabufs = false;  ///< libibverbs does, where the card's driver does
  bool has_peermem = false;        ///< the kernel's module nvidia-peermem is loaded
  std::vector<Port> ports;
  std::string why_not;
};

/// Loads libibverbs and asks it.
[[nodiscard]] Report look_for_verbs();

/// Makes the network; every rank of the communicator calls it. `links` are counted as they stand, and their memory
/// outlives the network. When it returns, a whole slot has gone each way between this rank and each peer, on every
/// path.
[[nodiscard]] Result<std::unique_ptr<net::Network>> make_network(const std::vector<net::NearLink> &links,
                                                                 const JoinRequest &request, Store &store);

}  // namespace rondo::verbs
