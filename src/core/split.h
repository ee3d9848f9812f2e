// SPDX-License-Identifier: Apache-2.0
// A split divides a communicator, the parent, into parts.
//
// Agree    The ranks of the parent run a special barrier (src/plan/split_call.h), which fails like any collective. In
//          it, each rank records its color, its key, a nonce, and a port on which it already listens. After the
//          barrier, every rank reads all records and so knows the members of its part.
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

/// Returns the ranks of the parent that form the part of `color`, in the part's order. `calls` is indexed by rank. A
/// pure function.
[[nodiscard]] std::vector<uint32_t> members_of(std::span<const SplitCall> calls, int32_t color);

/// Returns the call of another rank of `parent` in operation `number`. The operation is a split or a suspend that all
/// ranks have begun. `own` is the call of this rank. A record from another host may still be on its way.
[[nodiscard]] Result<SplitCall> recorded_call(const Communicator &parent, uint32_t rank, uint64_t number,
                                              const SplitCall &own, uint64_t deadline_ns);

/// Implements rondo_comm_split(). Takes the split's place among the operations of `parent`, and returns a function that
/// makes the part. With RONDO_NO_COLOR that function makes nothing, and is never nonblocking.
[[nodiscard]] Result<Initialisation> begin_split(std::shared_ptr<Communicator> parent, int color, int key,
                                                 const rondo_config_t *config);

}  // namespace rondo
