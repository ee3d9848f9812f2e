// SPDX-License-Identifier: Apache-2.0
// This file declares links between hosts over RDMA verbs. For each peer there are one or more queue pairs (reliable
// connection) on each rail. Each rail has one completion queue. transports/verbs/wire.h defines the messages.
#pragma once

#include <memory>
#include <vector>

#include "transports/net.h"
#include "transports/verbs/peer_info.h"

namespace rondo::verbs {

/// The facts that `rondo info` prints about verbs.
struct Report {
  bool built = false;
  bool found = false;  ///< libibverbs is installed
  // These say how verbs would reach memory of a CUDA device:
  bool registers_dmabufs = false;  ///< true: libibverbs can register dmabufs, if the card's driver can
  bool has_peermem = false;        ///< the kernel's module nvidia-peermem is loaded
  std::vector<Port> ports;
  std::string why_not;
};

/// Loads libibverbs and queries it.
[[nodiscard]] Report look_for_verbs();

/// Makes the network; every rank of the communicator calls it. The network numbers `links` in their order, and their
/// memory outlives the network. When the call returns, a whole slot has passed each way between this rank and each
/// peer, on every path.
[[nodiscard]] Result<std::unique_ptr<net::Network>> make_network(const std::vector<net::NearLink> &links,
                                                                 const JoinRequest &request, Store &store);

}  // namespace rondo::verbs
