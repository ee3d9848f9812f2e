// SPDX-License-Identifier: Apache-2.0
// This file makes communicators.
#pragma once

#include <memory>
#include <vector>

#include "src/bootstrap/launch/rendezvous.h"
#include "src/bootstrap/store/store.h"
#include "src/core/communicator.h"
#include "src/core/pending_inits.h"
#include "src/core/process.h"

namespace rondo {

/// Implements rondo_get_unique_id(): the server that the id names lives in this process until its group is complete.
[[nodiscard]] Result<rondo_unique_id_t> make_unique_id(const rondo_config_t *config);

/// Implements rondo_unique_id_free(): ends that server.
[[nodiscard]] Result<void> free_unique_id(const rondo_unique_id_t &id);

/// Implements rondo_comm_init() and rondo_comm_init_env(): checks what is refused at once, and returns the rest.
[[nodiscard]] Result<Initialisation> init_unique_id(const rondo_unique_id_t &id, int rank, int size,
                                                    const rondo_config_t *config);
[[nodiscard]] Result<Initialisation> init_environment(const rondo_config_t *config);

/// Returns the settings of a communicator that is to be made, or what is wrong with them.
[[nodiscard]] Result<Settings> settings_of(const rondo_config_t *config);

/// Makes the communicator of the ranks that meet at `server`, and ends that server if it is here.
[[nodiscard]] Result<std::shared_ptr<Communicator>> make_at(const GroupServer &server, uint32_t rank,
                                                            uint32_t rank_count, const Settings &settings,
                                                            uint64_t deadline_ns, const Cancel *cancel);
/// Makes the communicator of one rank, which meets nobody. `key_prefix` is unique in this process.
[[nodiscard]] Result<std::shared_ptr<Communicator>> make_alone(const std::string &key_prefix, const Settings &settings);

/// Waits until every rank of the group has mapped what it needs and needs the store no more: the last act of each init.
/// RONDO_ERROR_REMOTE means that a missing rank has died; the store's own report of the group is returned unchanged.
/// The view of ranks on several hosts may lag behind the store, so a failure counts after it has lasted for `lag_ns`.
[[nodiscard]] Result<void> wait_for_all(const Ranks &ranks, uint32_t rank_count, Store &store, uint64_t deadline_ns,
                                        uint64_t lag_ns = 0);

/// Makes all ranks in this process; `configs` is null or has `size` entries.
[[nodiscard]] Result<std::vector<std::shared_ptr<Communicator>>> init_all(int size, const rondo_config_t *configs);

}  // namespace rondo
