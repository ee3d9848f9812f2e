// SPDX-License-Identifier: Apache-2.0
// A shrink makes a new communicator of the ranks that are not excluded, its members. The parent may have failed, so its
// operations cannot be used. The members agree by notes (src/links/notes.h).
//
// Call     Each member posts the set that it excludes, and the lowest member posts the port on which it listens. A
//          member waits until it has seen the note of every other member. The wait fails if another member ended, gave
//          up, or excludes other ranks.
// Make     The members make the new communicator (src/core/part.h), and each posts its result.
// Confirm  A member returns the new communicator when all members have posted that they made it. A note stays when its
//          rank ends, so on one host either all living members return it, or none.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "src/core/communicator.h"
#include "src/core/pending_inits.h"

namespace rondo {

/// Implements rondo_comm_shrink(). Posts the call, and returns a function that does the rest.
/// RONDO_ERROR_INVALID_ARGUMENT: an excluded rank does not exist, or is this rank. RONDO_ERROR_INVALID_USAGE: an
/// earlier shrink still runs.
[[nodiscard]] Result<Initialisation> begin_shrink(std::shared_ptr<Communicator> parent, std::span<const int> excluded,
                                                  bool aborts, const rondo_config_t *config);

}  // namespace rondo
