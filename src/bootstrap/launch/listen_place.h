// SPDX-License-Identifier: Apache-2.0
// This file chooses where rank 0 listens for the other ranks of a job that meets at MASTER_ADDR.
#pragma once

#include "src/bootstrap/address.h"
#include "src/bootstrap/endpoint.h"

namespace rondo {

struct ListenPlace {
  Endpoint listen;
  Endpoint connect;  ///< by which this process reaches itself there
};

/// Chooses from the addresses of `master` as this host sees them (pure), of which `own` are the host's. Preferred is
/// one of this host's networks. A name that means loopback here is another address on other hosts, so rank 0 listens on
/// all. It does so, too, for a name of several addresses of this host, some of which another host may not reach.
/// Loopback that is spelled out stays loopback. `chosen` is RONDO_INTERFACE's address, or empty: it is taken if
/// `master` is no address of this host. Without it that is RONDO_ERROR_INVALID_ARGUMENT.
[[nodiscard]] Result<ListenPlace> pick_listen_place(const Endpoint &master, const std::vector<SocketAddress> &master_is,
                                                    const std::vector<HostAddress> &own, const std::string &chosen);

/// Finds the place on this host. Waits until `master` resolves, and until its name is of this host.
[[nodiscard]] Result<ListenPlace> find_listen_place(const Endpoint &master, std::string_view network_interface,
                                                    uint64_t deadline_ns, const Cancel *cancel);

}  // namespace rondo
