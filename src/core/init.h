// SPDX-License-Identifier: Apache-2.0
// These functions make communicators from unique ids, from the environment, or within one process.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/base/config.h"
#include "src/bootstrap/launch/rendezvous.h"
#include "src/bootstrap/store/store.h"
#include "src/core/communicator.h"
#include "src/core/pending_inits.h"
#include "src/core/process.h"
#include "src/links/init_context.h"
#include "src/topo/topology.h"

namespace rondo {

/// Implements rondo_get_unique_id(). The server that the id names runs in this process until its group is complete.
[[nodiscard]] Result<rondo_unique_id_t> make_unique_id(const rondo_config_t *config);

/// Implements rondo_unique_id_free(), which ends the server of the id.
[[nodiscard]] Result<void> free_unique_id(const rondo_unique_id_t &id);

/// Implements rondo_comm_init() and rondo_comm_init_env(). Checks the arguments, and returns a function that makes the
/// communicator.
[[nodiscard]] Result<Initialisation> init_unique_id(const rondo_unique_id_t &id, int rank, int size,
                                                    const rondo_config_t *config);
/// Implements rondo_comm_init_ids(). Ends the servers of the ids that are not used.
[[nodiscard]] Result<Initialisation> init_unique_ids(std::span<const rondo_unique_id_t> ids, int rank, int size,
                                                     const rondo_config_t *config);
[[nodiscard]] Result<Initialisation> init_environment(const rondo_config_t *config);

/// Returns the settings of a future communicator, or an error that says which setting is wrong and why.
[[nodiscard]] Result<Settings> settings_of(const rondo_config_t *config);

/// Makes the communicator of the ranks that meet at `server`. If this process runs that server, the server then ends.
[[nodiscard]] Result<std::shared_ptr<Communicator>> make_at(const GroupServer &server, uint32_t rank,
                                                            uint32_t rank_count, const Settings &settings,
                                                            uint64_t deadline_ns, const Cancel *cancel);
/// Makes a communicator of one rank, which needs no server. `key_prefix` is unique in this process.
[[nodiscard]] Result<std::shared_ptr<Communicator>> make_alone(const std::string &key_prefix, const Settings &settings);

// The ranks of a new communicator first exchange peer info. From the infos of all ranks, each rank makes the group info
// (src/links/init_context.h).

/// Exchanges peer info with all ranks through the store, and compares versions, sizes and settings. Returns
/// RONDO_ERROR_MISMATCH with the difference and two ranks that differ, or RONDO_ERROR_TIMEOUT with the ranks that did
/// not arrive.
[[nodiscard]] Result<GroupInfo> exchange_peer_info(Store &store, const std::string &key_prefix, uint32_t rank,
                                                   uint32_t rank_count, const Settings &settings,
                                                   const Topology &topology, uint64_t deadline_ns);

/// Waits, as the last step of an initialisation, until no rank needs the store any more: every rank has arrived and
/// mapped the memory that it needs. Returns RONDO_ERROR_REMOTE if a missing rank has died, and errors of the store
/// unchanged. On several hosts, this rank may learn late that the other ranks have arrived. So a failure counts only
/// once it has lasted for `lag_ns`.
[[nodiscard]] Result<void> wait_for_all(const Ranks &ranks, uint32_t rank_count, Store &store, uint64_t deadline_ns,
                                        uint64_t lag_ns = 0);

/// Makes a communicator with all ranks in this process. `configs` is null or has `size` entries.
[[nodiscard]] Result<std::vector<std::shared_ptr<Communicator>>> init_all(int size, const rondo_config_t *configs);

}  // namespace rondo
