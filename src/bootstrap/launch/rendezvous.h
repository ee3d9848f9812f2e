// SPDX-License-Identifier: Apache-2.0
// This file lets the ranks of a job or of a unique id meet: the one entry point of the bootstrap for the communicator.
#pragma once

#include <functional>

#include "src/bootstrap/launch/environment.h"
#include "src/bootstrap/launch/unique_id.h"

namespace rondo {

/// The group is complete: every rank has arrived, once.
struct Rendezvous {
  uint32_t rank = 0;
  uint32_t size = 1;
  Secret secret;                        ///< known to the group's ranks only; none for Job::RendezvousMethod::alone
  uint32_t generation = 0;              ///< of communicators from the environment; 0 for a unique id
  std::string key_prefix;               ///< begins the group's keys ("g0/"); no other group uses it in this store
  std::unique_ptr<StoreServer> server;  ///< where this rank runs the store, or null. Declared before `store`, so that
  std::unique_ptr<Store> store;         ///< the client goes first. Keep the server while any rank may use the store.
};

/// A server that runs for one group in the process of one of its ranks.
struct GroupServer {
  UniqueId id;
  StoreHost host;
  std::function<void()> idle{};  ///< done as Store::set_idle_work() says, until all ranks have arrived
};
/// Returns the server of an id of start_unique_id_server().
[[nodiscard]] GroupServer server_of(const UniqueId &id);

/// Meets the other ranks of `job`. `generation` counts the communicators that were made from the environment before, on
/// every rank alike. `serving` says that this process keeps the server of an earlier one. With
/// Job::RendezvousMethod::listen all generations meet at one port. `network_interface` is RONDO_INTERFACE: it chooses
/// where rank 0 listens for a file, and where MASTER_ADDR is no address of its host. `cancel` acts as in
/// connect_store(). RONDO_ERROR_TIMEOUT lists the ranks that did not arrive.
[[nodiscard]] Result<Rendezvous> join_job(const Job &job, uint32_t generation, bool serving,
                                          std::string_view network_interface, uint64_t deadline_ns,
                                          const Cancel *cancel = nullptr);

/// Meets the other ranks at the server of `id`, which start_unique_id_server() runs in one of their processes.
[[nodiscard]] Result<Rendezvous> join_group(const GroupServer &server, uint32_t rank, uint32_t size,
                                            uint64_t deadline_ns, const Cancel *cancel = nullptr);
[[nodiscard]] Result<Rendezvous> join_unique_id(const rondo_unique_id_t &id, uint32_t rank, uint32_t size,
                                                uint64_t deadline_ns, const Cancel *cancel = nullptr);

}  // namespace rondo
