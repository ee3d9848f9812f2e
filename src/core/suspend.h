// SPDX-License-Identifier: Apache-2.0
// A communicator on a device can be suspended: its ranks give device memory back, and make it again later.
//
// Suspend  The ranks run a barrier, in whose record rank 0 publishes where it listens (src/plan/split_call.h). When all
//          ranks have completed the barrier, no rank writes into another's memory. Each rank copies the content
//          of its memory to the host, and gives the memory back. Its addresses stay reserved, also on the peers.
// Resume   The ranks meet in a store of rank 0. Each allocates its memory at the same addresses, writes the content,
//          and opens the memory of its peers again. So earlier plans and graphs stay valid.
// Thread   On a nonblocking communicator, a thread does the work of both. Until it ends, communicator_of() refuses the
//          handle, so that no other call meets that work.
// Failure  If a suspend or a resume fails on a rank, the communicator fails.
//          Resume fails on the waiting ranks as soon as the communicator has failed, or one of its ranks has ended it.
#pragma once

#include <memory>

#include "src/core/communicator.h"

namespace rondo {

/// Implements rondo_comm_suspend().
[[nodiscard]] Result<void> suspend(const std::shared_ptr<Communicator> &comm);

/// Implements rondo_comm_resume().
[[nodiscard]] Result<void> resume(const std::shared_ptr<Communicator> &comm);

}  // namespace rondo
