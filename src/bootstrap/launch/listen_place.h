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

/// Chooses where rank 0 listens (pure). `master_is` are the addresses to which `master` resolves on this host, and
/// `own` are this host's addresses. If exactly one of `master_is` is in `own`, rank 0 listens there. If several are, or
/// if the name means loopback here, rank 0 listens on all addresses, because another host may reach only some of them.
/// A loopback address, or 0.0.0.0, that the user has written as an address is used as it is. If `master` is no address
/// of this host, rank 0 listens on `chosen`, the address of RONDO_INTERFACE. If `chosen` is empty, too, the result is
/// RONDO_ERROR_INVALID_ARGUMENT.
[[nodiscard]] Result<ListenPlace> pick_listen_place(const Endpoint &master, const std::vector<SocketAddress> &master_is,
                                                    const std::vector<HostAddress> &own, const std::string &chosen);

/// Finds where to listen on this host. Waits until `master` resolves, and its name includes an address of this host.
[[nodiscard]] Result<ListenPlace> find_listen_place(const Endpoint &master, std::string_view network_interface,
                                                    uint64_t deadline_ns, const Cancel *cancel);

}  // namespace rondo
