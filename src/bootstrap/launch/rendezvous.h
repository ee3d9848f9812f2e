// SPDX-License-Identifier: Apache-2.0
// This file lets the ranks of a job or of a unique id meet. It is the only part of the bootstrap that a communicator
// calls.
#pragma once

#include <functional>

#include "src/bootstrap/address.h"
#include "src/bootstrap/endpoint.h"
#include "src/bootstrap/launch/environment.h"
#include "src/bootstrap/launch/unique_id.h"

namespace rondo {

/// A complete group: every rank has arrived exactly once.
struct Rendezvous {
  uint32_t rank = 0;
  uint32_t size = 1;
  Secret secret;                        ///< known to the group's ranks only; none for Job::RendezvousMethod::alone
  uint32_t generation = 0;              ///< see join_job(); 0 for a unique id
  std::string key_prefix;               ///< prefix of the group's keys ("g0/"); no other group uses it in this store
  std::unique_ptr<StoreServer> server;  ///< set if this rank runs the store; keep it while any rank may use the store
  std::unique_ptr<Store> store;         ///< declared after `server`, so that the client is destroyed before the server
};

/// The server of a group, which runs in the process of one rank.
struct GroupServer {
  UniqueId id;
  StoreHost host;
  std::function<void()> idle{};  ///< work to do while other ranks are awaited, see Store::set_idle_work()
  bool ends_with_rank = true;    ///< false if another rank ends the server, though it may run in this process
};
/// Returns the server that belongs to an id of start_unique_id_server().
[[nodiscard]] GroupServer server_of(const UniqueId &id);

/// Meets the other ranks of `job`. `generation` is the number of earlier communicators from the environment. It is
/// equal on all ranks. With Job::RendezvousMethod::listen, all generations meet at one port. `serving` says that this
/// process still runs the server of an earlier generation. `network_interface` is RONDO_INTERFACE. It chooses where
/// rank 0 listens if ranks meet by a file, or if MASTER_ADDR is no address of rank 0's host. `cancel` acts as in
/// connect_store(). RONDO_ERROR_TIMEOUT lists the ranks that did not arrive.
[[nodiscard]] Result<Rendezvous> join_job(const Job &job, uint32_t generation, bool serving,
                                          std::string_view network_interface, uint64_t deadline_ns,
                                          const Cancel *cancel = nullptr);

/// Meets the other ranks at the server of `id`, which start_unique_id_server() runs in one of their processes.
[[nodiscard]] Result<Rendezvous> join_group(const GroupServer &server, uint32_t rank, uint32_t size,
                                            uint64_t deadline_ns, const Cancel *cancel = nullptr);
[[nodiscard]] Result<Rendezvous> join_unique_id(const rondo_unique_id_t &id, uint32_t rank, uint32_t size,
                                                uint64_t deadline_ns, const Cancel *cancel = nullptr);

/// The place where rank 0 listens for the other ranks of a job that meets at MASTER_ADDR.
struct ListenPlace {
  Endpoint listen;
  Endpoint connect;  ///< the endpoint by which this process reaches itself
};

/// Chooses where rank 0 listens (pure). `master_is` has the addresses to which this host resolves `master`, and `own`
/// has this host's addresses. If exactly one address of `master` is in `own`, rank 0 listens on it. If several are in
/// `own`, or if the name of `master` means loopback here, rank 0 listens on all addresses. In these cases, other hosts
/// may not reach one address alone. If `master` itself is a loopback address or 0.0.0.0, rank 0 listens on it. If
/// `master` is no address of this host, rank 0 listens on `chosen`, the address of RONDO_INTERFACE. If `chosen` is
/// empty, too, the result is RONDO_ERROR_INVALID_ARGUMENT.
[[nodiscard]] Result<ListenPlace> pick_listen_place(const Endpoint &master, const std::vector<SocketAddress> &master_is,
                                                    const std::vector<HostAddress> &own, const std::string &chosen);

/// Finds the place on this host. If `master` is a name, waits until it resolves to an address of this host.
[[nodiscard]] Result<ListenPlace> find_listen_place(const Endpoint &master, std::string_view network_interface,
                                                    uint64_t deadline_ns, const Cancel *cancel);

}  // namespace rondo
