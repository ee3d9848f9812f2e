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

/// Chooses from `master_is`, the addresses of `master` as this host resolves it (pure). `own` are the addresses of this
/// host. An address of `master` in one of this host's networks is preferred. Rank 0 listens on all addresses in two
/// cases. If the name of `master` means loopback here, it may mean another address on other hosts. If it has several
/// addresses of this host, another host may not reach all of them. A loopback address that is written as such stays
/// loopback. If `master` is no address of this host, rank 0 listens on `chosen`, the address of RONDO_INTERFACE. If
/// `chosen` is empty then, the result is RONDO_ERROR_INVALID_ARGUMENT.
[[nodiscard]] Result<ListenPlace> pick_listen_place(const Endpoint &master, const std::vector<SocketAddress> &master_is,
                                                    const std::vector<HostAddress> &own, const std::string &chosen);

/// Finds the place on this host. Waits until `master` resolves, and until its name has an address of this host.
[[nodiscard]] Result<ListenPlace> find_listen_place(const Endpoint &master, std::string_view network_interface,
                                                    uint64_t deadline_ns, const Cancel *cancel);

}  // namespace rondo
