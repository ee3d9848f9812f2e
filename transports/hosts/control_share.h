// SPDX-License-Identifier: Apache-2.0
// This file lets the ranks of a host share its control connections. The first rank of the host makes them and passes
// all descriptors to the other ranks.
#pragma once

#include <memory>

#include "src/bootstrap/fd_channel.h"
#include "src/bootstrap/store/store.h"
#include "transports/net/control.h"

namespace rondo::hosts {

struct ShareRequest {
  uint32_t rank = 0;
  std::vector<uint32_t> host_of;  ///< by rank
  std::string key_prefix;
  uint64_t deadline_ns = 0;
};

/// The first rank of a host keeps this until all other ranks there have their descriptors.
struct ControlOffer {
  FileDescriptor memory;
  std::unique_ptr<FdOffer> offer;  ///< null if the host has no other ranks
};

struct SharedControl {
  net::ControlShare share;  ///< lacks the sockets on the first rank of a host, whose caller still holds them
  ControlOffer offer;
};

/// Shares the connections; every rank calls it. The first rank of a host passes `sockets`, one for each other host in
/// ascending order, and keeps them open until the host's other ranks have received theirs.
[[nodiscard]] Result<SharedControl> share_control(const ShareRequest &request, const std::vector<int> &sockets,
                                                  Store &store);

/// Sets the options of a control connection before both ends use it. The options hold for all processes that share the
/// socket.
[[nodiscard]] Result<void> set_control_options(int socket,
                                               uint64_t network_timeout_ns = net::default_network_timeout_ns);

}  // namespace rondo::hosts
