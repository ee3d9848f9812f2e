// SPDX-License-Identifier: Apache-2.0
// This file chooses where rank 0 listens for the other ranks of a job that meets at MASTER_ADDR.
#pragma once

#include "src/bootstrap/address.h"
#include "src/bootstrap/endpoint.h"

namespace rondo {

struct ListenPlace {
  Endpoint listen;
  Endpoint connect;  ///< the endpoint by which this process reaches itself
};

/// Chooses where rank 0 listens (pure). `master_is` are the addresses of `master` as this host resolves it, and `own`
/// are this host's addresses. If exactly one address of `master` is in `own`, rank 0 listens there. In two cases rank 0
/// listens on all addresses, because another host may not reach a single one. In the first case, several addresses of
/// `master` are in `own`. In the second, its name means loopback here. A loopback address, or 0.0.0.0, that is written
/// as such stays. If `master` is no address of this host, rank 0 listens on `chosen`, the address of RONDO_INTERFACE.
/// If `chosen` is empty, too, the result is RONDO_ERROR_INVALID_ARGUMENT.
[[nodiscard]] Result<ListenPlace> pick_listen_place(const Endpoint &master, const std::vector<SocketAddress> &master_is,
                                                    const std::vector<HostAddress> &own, const std::string &chosen);

/// Finds the place on this host. Waits until `master` resolves, and until its name has an address of this host.
[[nodiscard]] Result<ListenPlace> find_listen_place(const Endpoint &master, std::string_view network_interface,
                                                    uint64_t deadline_ns, const Cancel *cancel);

}  // namespace rondo
