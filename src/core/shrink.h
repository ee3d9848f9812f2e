// SPDX-License-Identifier: Apache-2.0
// Shrinks of a communicator: the ranks that are not excluded make a new one. The parent may have failed, so its
// operations are of no use. Ranks agree by notes (src/links/notes.h).
//
// Call     Each rank posts the set that it excludes, and the lowest member posts on which port it listens. A rank waits
//          until it has seen the note of every member. A member that ended, gave up, or excludes other ranks ends that
//          wait.
// Make     The members make the new communicator (src/core/part.h), and each posts how that went.
// Confirm  A rank returns the new communicator when all members have posted that they made it. A note outlives its
//          rank, so on one host either all members that live return it, or none.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "src/core/communicator.h"
#include "src/core/pending_inits.h"

namespace rondo {

/// Implements rondo_comm_shrink(): posts the call and returns the rest. RONDO_ERROR_INVALID_ARGUMENT: a rank that is
/// excluded does not exist, or is this one. RONDO_ERROR_INVALID_USAGE: the shrink before this one still runs.
[[nodiscard]] Result<Initialisation> begin_shrink(std::shared_ptr<Communicator> parent, std::span<const int> excluded,
                                                  bool aborts, const rondo_config_t *config);

}  // namespace rondo
