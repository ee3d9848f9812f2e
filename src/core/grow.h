// SPDX-License-Identifier: Apache-2.0
// A grow makes a new communicator from all ranks of a parent and new ranks. The old ranks first agree, as in a shrink
// (src/core/regroup.h). One of them, the maker, has made an id and serves the store that the id names. A new rank knows
// only the id, and enters that store as with every unique id.
//
// The id's secret and name are derived from the parent's secret and a nonce. The maker sends only its address and the
// nonce to the old ranks, which derive the rest. So Rondo sends no id and no secret over a network.
#pragma once

#include <memory>

#include "src/core/communicator.h"
#include "src/core/pending_inits.h"

namespace rondo {

/// Implements rondo_comm_grow_id(). Starts to listen for new ranks. Returns RONDO_ERROR_INVALID_USAGE if an earlier id
/// of this rank is not used yet.
[[nodiscard]] Result<rondo_unique_id_t> make_grow_id(Communicator &parent);

/// Implements rondo_comm_grow() on an old rank. Posts the call, and returns a function that makes the communicator.
/// `id` may be null.
[[nodiscard]] Result<Initialisation> begin_grow(std::shared_ptr<Communicator> parent, const rondo_unique_id_t *id,
                                                int size, const rondo_config_t *config);

}  // namespace rondo
