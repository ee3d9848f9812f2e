// SPDX-License-Identifier: Apache-2.0
// How communicators come to be.
#pragma once

#include <memory>
#include <vector>

#include "src/bootstrap/store/store.h"
#include "src/core/communicator.h"
#include "src/core/pending_inits.h"
#include "src/core/process.h"

namespace rondo {

/// rondo_get_unique_id(): the server that the id names lives in this process until its group is complete.
[[nodiscard]] Result<rondo_unique_id_t> make_unique_id(const rondo_config_t *config);

/// rondo_unique_id_free(): ends that server.
[[nodiscard]] Result<void> free_unique_id(const rondo_unique_id_t &id);

/// rondo_comm_init(), rondo_comm_init_env(): what is refused at once, and the rest.
[[nodiscard]] Result<Initialisation> init_unique_id(const rondo_unique_id_t &id, int rank, int size,
                                                    const rondo_config_t *config);
[[nodiscard]] Result<Initialisation> init_environment(const rondo_config_t *config);

/// Until every rank of the group has mapped what it needs and needs the store no more: the last act of each init.
/// RONDO_ERROR_REMOTE where one of those that are missing has died, or what the store says of the group. A view of
/// ranks that lags (Ranks of several hosts) may be behind the store: a failure counts when it has stood for `lag_ns`.
[[nodiscard]] Result<void> wait_for_all(const Ranks &ranks, uint32_t rank_count, Store &store, uint64_t deadline_ns,
                                        uint64_t lag_ns = 0);

/// All ranks in this process; `configs` is null or has `size` entries.
[[nodiscard]] Result<std::vector<std::shared_ptr<Communicator>>> init_all(int size, const rondo_config_t *configs);

}  // namespace rondo
