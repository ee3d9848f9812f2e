// SPDX-License-Identifier: Apache-2.0
// These functions make a communicator from another one, its parent, by a split, a shrink or a grow.
//
// Split   divides the parent into parts. The ranks of the parent run a special barrier (src/plan/split_call.h), which
//         fails like any collective. In it, each rank records its color, its key, a nonce, and a port on which it
//         already listens. After the barrier, every rank reads all records, and so knows the members of its part.
//         They make the part (src/core/part.h).
// Shrink  makes a communicator of the ranks that are not excluded (src/core/regroup.h).
// Grow    makes a communicator from all ranks of the parent and new ranks. The old ranks first agree, as in a shrink.
//         One of them, the maker, has made an id and serves the store that the id names. A new rank knows only the id,
//         and enters that store as with every unique id. The id's secret and name are derived from the parent's secret
//         and a nonce. The maker sends only its address and the nonce to the old ranks, which derive the rest. So Rondo
//         sends no id and no secret over a network.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/core/communicator.h"
#include "src/core/pending_inits.h"
#include "src/plan/split_call.h"

namespace rondo {

/// Returns the ranks of the parent that form the part of `color`, in the part's order. `calls` is indexed by rank. The
/// function is pure.
[[nodiscard]] std::vector<uint32_t> members_of(std::span<const SplitCall> calls, int32_t color);

/// Returns the call of another rank of `parent` in operation `number`. The operation is a split or a suspend that all
/// ranks have begun. `own` is the call of this rank. Waits for a record of another host that is still on its way.
[[nodiscard]] Result<SplitCall> recorded_call(const Communicator &parent, uint32_t rank, uint64_t number,
                                              const SplitCall &own, uint64_t deadline_ns);

/// Implements rondo_comm_split(). Takes the split's place among the operations of `parent`, and returns a function that
/// makes the part. If `color` is RONDO_NO_COLOR, the returned function makes nothing, and is never nonblocking.
[[nodiscard]] Result<Initialisation> begin_split(std::shared_ptr<Communicator> parent, int color, int key,
                                                 const rondo_config_t *config);

/// Implements rondo_comm_shrink(). Announces the call to the other ranks, and returns a function that makes the
/// communicator. Returns RONDO_ERROR_INVALID_ARGUMENT if an excluded rank does not exist or is this rank, and
/// RONDO_ERROR_INVALID_USAGE if an earlier shrink or grow still runs.
[[nodiscard]] Result<Initialisation> begin_shrink(std::shared_ptr<Communicator> parent, std::span<const int> excluded,
                                                  bool aborts, const rondo_config_t *config);

/// Implements rondo_comm_grow_id(). Starts to listen for new ranks. Returns RONDO_ERROR_INVALID_USAGE if an earlier id
/// of this rank is not used yet.
[[nodiscard]] Result<rondo_unique_id_t> make_grow_id(Communicator &parent);

/// Implements rondo_comm_grow() on an old rank. Announces the call to the old ranks, and returns a function that makes
/// the communicator. `id` may be null.
[[nodiscard]] Result<Initialisation> begin_grow(std::shared_ptr<Communicator> parent, const rondo_unique_id_t *id,
                                                int size, const rondo_config_t *config);

}  // namespace rondo
