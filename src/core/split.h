// SPDX-License-Identifier: Apache-2.0
// Splits of a communicator into parts.
//
// Agree    The ranks of the parent run a barrier of its own kind (src/plan/split_call.h), which has the failure
//          contract of every collective. Each rank records its color, its key, a port on which it listens already, and
//          a nonce. After the barrier every rank reads all records, and finds the members of its part.
// Make     The members of each part make it (src/core/part.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/core/communicator.h"
#include "src/core/pending_inits.h"
#include "src/plan/split_call.h"

namespace rondo {

/// Returns the ranks of the parent that make the part of `color`, in the order of the part (pure). `calls` are by rank.
[[nodiscard]] std::vector<uint32_t> members_of(std::span<const SplitCall> calls, int32_t color);

/// Implements rondo_comm_split(): takes the turn of the split on `parent` and returns the rest, which makes the part.
/// With RONDO_NO_COLOR the rest makes nothing, and is never nonblocking.
[[nodiscard]] Result<Initialisation> begin_split(std::shared_ptr<Communicator> parent, int color, int key,
                                                 const rondo_config_t *config);

}  // namespace rondo
