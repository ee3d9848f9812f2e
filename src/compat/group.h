// SPDX-License-Identifier: Apache-2.0
// A thread's calls between ncclGroupStart() and the outermost ncclGroupEnd() are checked and kept. The outermost
// ncclGroupEnd() runs them. Outside of a group, a call runs at once. All functions use the group of the calling thread.
#pragma once

#include <functional>
#include <vector>

#include "src/compat/communicator.h"
#include "src/compat/settings.h"

namespace rondo::compat {

/// A collective or message whose arguments were checked.
struct Collective {
  rondo_collective_t kind;
  const void *send;
  void *recv;
  size_t count;
  rondo_type_t type;
  rondo_op_t op;
  int root;  ///< root, or the peer of a message
  ncclComm *comm;
  cudaStream_t stream;
};

/// A put, a signal or a wait whose arguments were checked.
struct OneSided {
  ncclComm *comm;
  cudaStream_t stream;
  std::function<rondo_status_t(rondo_comm_t, cudaStream_t)> call;
};

/// One rank's initialisation of a communicator.
struct Initialisation {
  ncclComm *comm = nullptr;
  std::vector<rondo_unique_id_t> ids;  ///< used by a communicator of several ranks without a parent
  ncclComm *parent = nullptr;          ///< communicator to derive from, or null if made from the ids
  enum class From { split, shrink, grow } from = From::split;  ///< with a parent: the call that makes the communicator
  int color = 0, key = 0;                                      ///< arguments of a split
  std::vector<int> excluded;                                   ///< argument of a shrink, like shrink_flags
  unsigned shrink_flags = 0;
  std::vector<rondo_unique_id_t> grow_id;  ///< argument of a grow: one id or none
  bool inherits = false;       ///< true if it takes its parent's settings
  Settings settings;
};

/// One rank's call that suspends or resumes a communicator.
struct Suspension {
  ncclComm *comm;
  bool resumes;
};

[[nodiscard]] bool in_group();

void start_group();

/// Ends the innermost group. The outermost end runs the kept calls. If a call was refused, the end runs no
/// initialisation and no collective, and returns the refusal.
ncclResult_t end_group();

/// Stores a failed result and its message as the group's refusal, unless the group has one. Returns `result`.
ncclResult_t note(ncclResult_t result);

ncclResult_t run_or_keep(const Collective &collective);
ncclResult_t run_or_keep(OneSided operation);
/// Records an event before the collective that follows. In a group, the group's end records all events before it runs
/// collectives. So either all events are recorded, or no collective runs.
ncclResult_t record_or_keep(int device, cudaEvent_t event, cudaStream_t stream);
/// Starts an initialisation, and waits for it if the communicator is blocking. In a group, the group's end does both.
ncclResult_t run_or_keep(Initialisation initialisation);
/// Suspends or resumes a communicator. This waits for the other ranks. In a group, the group's end does so, after the
/// collectives, and for all communicators of the group at the same time.
ncclResult_t run_or_keep(const Suspension &suspension);
/// Runs suspensions at the end of a group. Those of one communicator run in order, until one fails. Communicators do
/// not wait for each other, as they may be ranks of one group. Returns the first failure if there is one.
ncclResult_t run_suspensions(const std::vector<Suspension> &suspensions);
ncclResult_t end_or_keep(ncclComm *comm, bool abort);
/// Ends a created operation of `comm`. In a group, the group's end does so, after it has run the kept calls.
ncclResult_t end_or_keep(rondo_op_t op, ncclComm *comm);
/// Returns whether the group has kept the end of a created operation.
[[nodiscard]] bool ends_with_group(ncclRedOp_t op);

/// Returns Rondo's type for a known one of NCCL's.
[[nodiscard]] rondo_type_t type_of(ncclDataType_t type);

}  // namespace rondo::compat
