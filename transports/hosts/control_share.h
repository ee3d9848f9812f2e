// SPDX-License-Identifier: Apache-2.0
// The ranks of a host share the control connections. The first rank of the host makes them and passes all descriptors
// to the other ranks.
#pragma once

#include <memory>

#include "src/bootstrap/fd_channel.h"
#include "src/bootstrap/store/store.h"
#include "transports/net/control.h"

namespace rondo::hosts {

struct ShareRequest {
  uint32_t rank = 0;
  std::vector<uint32_t> host_of;     ///< by rank
  std::vector<uint32_t> neighbours;  ///< the hosts with which this one has control connections, ascending
  std::string key_prefix;
  uint64_t deadline_ns = 0;
};

/// The objects that the first rank of a host keeps until all others have theirs.
struct ControlOffer {
  FileDescriptor memory;
  std::unique_ptr<FdOffer> offer;  ///< null: nobody else is there
};

struct SharedControl {
  net::ControlShare share;  ///< of the first rank of a host: without sockets, which are still the caller's
  ControlOffer offer;
};

/// Shares the connections; every rank calls it. The first rank of a host passes `sockets`, as `neighbours` has them.
/// They stay open until the others have theirs.
[[nodiscard]] Result<SharedControl> share_control(const ShareRequest &request, const std::vector<int> &sockets,
                                                  Store &store);

/// Sets the options of a connection between hosts that both ends are about to use for control. They hold for all
/// processes that hold it.
[[nodiscard]] Result<void> set_control_options(int socket,
                                               uint64_t network_timeout_ns = net::default_network_timeout_ns);

}  // namespace rondo::hosts
