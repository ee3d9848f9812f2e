// SPDX-License-Identifier: Apache-2.0
// This file declares what a program holds as ncclComm_t: a rank's part of a communicator of Rondo.
#pragma once

#include <atomic>
#include <string>

#include "rondo/rondo.h"
#include "src/compat/abi.h"

/// The memory of an ended one stays allocated and is used for a later one. So a handle that a program uses after its
/// end is noticed, as long as no new communicator has taken its place.
/// The atomics are read by threads that poll or abort while another one makes or ends the communicator.
struct ncclComm {
  std::atomic<bool> alive = false;             ///< pairs with itself: it is false from the end on
  std::atomic<bool> ready = false;             ///< pairs with itself: once true, the communicator has been made
  std::atomic<rondo_comm_t> handle = nullptr;  ///< pairs with itself; null until the group that makes it has ended
  std::atomic<bool> finalized = false;         ///< pairs with itself: of two threads that finalize, one is refused
  std::atomic<bool> revoked = false;           ///< likewise, of two that revoke
  ncclResult_t refusal = ncclSuccess;  ///< why it will never have a handle
  std::atomic<int> rank = 0, rank_count = 0;  ///< written before `ready`; a part of a split learns them then
  int device = 0;
  bool blocking = true;
};

namespace rondo::compat {

/// Returns a new one without a handle. Any thread.
[[nodiscard]] ncclComm *make_communicator(int rank, int rank_count, int device, bool blocking);

/// Takes `comm` out of use if it still has `handle`. False: another thread has ended it. Any thread.
[[nodiscard]] bool retire(ncclComm *comm, rondo_comm_t handle);

/// Checks that `comm` is in use. `function` begins the sentence of a refusal.
[[nodiscard]] ncclResult_t check_alive(const ncclComm *comm, const char *function);

/// Checks also that its making has ended well. A communicator that is still being made gives ncclInvalidArgument.
[[nodiscard]] ncclResult_t check_ready(ncclComm *comm, const char *function);

/// Returns the state of `comm`, which is in use: ncclSuccess, ncclInProgress or its failure.
[[nodiscard]] ncclResult_t state_of(ncclComm *comm);

/// Waits until the making of `comm` has ended. A failure ends `comm`.
ncclResult_t wait_until_made(ncclComm *comm);

/// Ends `comm`, whether it is usable or not. `abort` ends its operations on all ranks first.
ncclResult_t end_communicator(ncclComm *comm, bool abort);

}  // namespace rondo::compat
