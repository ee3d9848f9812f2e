// SPDX-License-Identifier: Apache-2.0
// A shrink makes a new communicator of the ranks that are not excluded (src/core/regroup.h).
#pragma once

#include <memory>
#include <span>

#include "src/core/communicator.h"
#include "src/core/pending_inits.h"

namespace rondo {

/// Implements rondo_comm_shrink(). Posts the call, and returns a function that makes the communicator. Returns
/// RONDO_ERROR_INVALID_ARGUMENT if an excluded rank does not exist or is this rank, and RONDO_ERROR_INVALID_USAGE if an
/// earlier shrink or grow still runs.
[[nodiscard]] Result<Initialisation> begin_shrink(std::shared_ptr<Communicator> parent, std::span<const int> excluded,
                                                  bool aborts, const rondo_config_t *config);

}  // namespace rondo
