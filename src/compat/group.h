// SPDX-License-Identifier: Apache-2.0
// Calls between ncclGroupStart() and the outermost ncclGroupEnd() of a thread: they are checked and kept, and the end
// runs them. Outside of a group a call runs at once. All functions concern the calling thread's group.
#pragma once

#include <vector>

#include "src/compat/communicator.h"
#include "src/compat/settings.h"

namespace rondo::compat {

/// A collective or message whose arguments have been checked.
struct Collective {
  rondo_collective_t kind;
  const void *send;
  void *recv;
  size_t count;
  rondo_type_t type;
  rondo_op_t op;
  int root;  ///< of a message, the peer
  ncclComm *comm;
  cudaStream_t stream;
};

/// A rank's part in the making of a communicator.
struct Initialisation {
  ncclComm *comm = nullptr;
  rondo_unique_id_t id{};  ///< a communicator of one rank does not use it, nor does a part of a split
  ncclComm *parent = nullptr;  ///< of which it is a part, or null if it is made from the id
  int color = 0, key = 0;      ///< of a part of a split
  bool shrinks = false;        ///< it is what the parent shrinks to, and the next two count
  std::vector<int> excluded;
  unsigned shrink_flags = 0;
  bool inherits = false;       ///< a part takes its parent's settings
  Settings settings;
};

[[nodiscard]] bool in_group();

void start_group();

/// Ends the innermost group. The outermost end runs what was kept; after a refusal it runs no initialisation and no
/// collective, and returns that refusal.
ncclResult_t end_group();

/// Ends the innermost group as end_group() does, but drops what was kept.
void drop_group();

/// Keeps a failed result, with its sentence, as the group's refusal, unless it has one. Returns `result`.
ncclResult_t note(ncclResult_t result);

ncclResult_t run_or_keep(const Collective &collective);
/// Starts the making of a communicator, and waits for it if the communicator is a blocking one.
ncclResult_t run_or_keep(Initialisation initialisation);
ncclResult_t end_or_keep(ncclComm *comm, bool abort);
/// Ends a created operation of `comm`, in a group behind its calls.
ncclResult_t end_or_keep(rondo_op_t op, ncclComm *comm);
/// Returns whether the group has kept the end of a created operation.
[[nodiscard]] bool ends_with_group(ncclRedOp_t op);

/// Returns Rondo's type for a known one of NCCL's.
[[nodiscard]] rondo_type_t type_of(ncclDataType_t type);

}  // namespace rondo::compat
