// SPDX-License-Identifier: Apache-2.0
// This file declares ncclComm_t: one rank's side of a communicator of Rondo.
#pragma once

#include <time.h>

#include <atomic>
#include <string>

#include "rondo/rondo.h"
#include "src/compat/abi.h"

/// A rank's communicator. When it ends, its memory stays allocated until a later communicator reuses it. Until then,
/// the use of an ended handle is noticed. Threads that poll or abort read the atomics while another thread makes or
/// ends the communicator.
struct ncclComm {
  std::atomic<bool> alive = false;             ///< pairs with itself: false once the communicator has ended
  std::atomic<bool> ready = false;             ///< pairs with itself: true once the communicator is made
  std::atomic<rondo_comm_t> handle = nullptr;  ///< pairs with itself; null until the group that makes it has ended
  std::atomic<bool> finalized = false;         ///< pairs with itself: if two threads finalize, one is refused
  std::atomic<bool> revoked = false;           ///< pairs with itself: if two threads revoke, one is refused
  std::atomic<bool> shrunk = false;  ///< pairs with itself: true once a shrink ended the operations, as a revoke does
  std::atomic<ncclResult_t> refusal = ncclSuccess;  ///< pairs with itself: why there will never be a handle
  std::atomic<int> rank = 0, rank_count = 0;  ///< set before `ready`; a split does not know them earlier
  int device = 0;
  bool blocking = true;
};

namespace rondo::compat {

/// Returns a new communicator without a handle. Any thread.
[[nodiscard]] ncclComm *make_communicator(int rank, int rank_count, int device, bool blocking);

/// Retires `comm` if it still has `handle`. Returns false if another thread has ended it. Any thread.
[[nodiscard]] bool retire(ncclComm *comm, rondo_comm_t handle);

/// Takes `handle` from `comm`. From then on `comm` returns `refusal`, until the program ends it. Returns false if
/// another thread has ended it. Any thread.
[[nodiscard]] bool keep_refused(ncclComm *comm, rondo_comm_t handle, ncclResult_t refusal);

/// Checks that `comm` is in use. `function` begins the message of an error.
[[nodiscard]] ncclResult_t check_alive(const ncclComm *comm, const char *function);

/// Checks also that the initialisation of `comm` has succeeded. Returns ncclInvalidArgument while it still runs.
[[nodiscard]] ncclResult_t check_ready_state(ncclComm *comm, const char *function);

/// Checks the same. The usual case takes no call, because every collective makes this check.
[[nodiscard]] inline ncclResult_t check_ready(ncclComm *comm, const char *function) {
  const bool usable = comm != nullptr && comm->alive && comm->ready.load(std::memory_order_relaxed);
  return usable ? ncclSuccess : check_ready_state(comm, function);
}

/// Returns the state of a `comm` that is in use: ncclSuccess, ncclInProgress or its failure. If this rank has revoked
/// `comm`, its operations have ended as the program wanted. So the state is ncclSuccess, though calls are refused.
[[nodiscard]] ncclResult_t state_of(ncclComm *comm);

/// The naps of a loop that polls, since Rondo has no call that waits for the end of work without a stream. They become
/// longer. The deadline of the work ends the loop.
class Naps {
 public:
  void take();

 private:
  timespec next_{0, 20'000};
};

/// Waits until the initialisation of `comm` has ended. If it failed, ends `comm`, or keeps it as refused if `stays`.
ncclResult_t wait_until_made(ncclComm *comm, bool stays);

/// Returns ncclInProgress while the communicator is being suspended or resumed, and then the outcome.
[[nodiscard]] ncclResult_t change_of(rondo_comm_t handle);

/// Ends `comm`, even if it has failed. With `abort`, first ends its operations on all ranks.
ncclResult_t end_communicator(ncclComm *comm, bool abort);

}  // namespace rondo::compat
