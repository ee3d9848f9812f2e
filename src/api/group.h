// SPDX-License-Identifier: Apache-2.0
// Groups of calls, one for each thread. The calls between rondo_group_begin() and rondo_group_end() are kept here, and
// the outermost end enqueues them. The third exception to "no mutable globals", for the reason that last_error.h gives.
#pragma once

#include <memory>
#include <new>

#include "src/base/result.h"
#include "src/core/communicator.h"

namespace rondo::group {

/// True: this thread has a group, so that calls are kept.
[[nodiscard]] bool is_open() noexcept;

void begin();
/// Ends the innermost group; the outermost one runs what was kept.
Result<void> end();
Result<void> cancel();

/// Keeps a call in the group that is open. Counts and displacements are copied.
Result<void> keep(rondo_comm_t handle, const std::shared_ptr<Communicator> &comm, const Call &call,
                  rondo_stream_t stream);
Result<void> keep(rondo_comm_t handle, const std::shared_ptr<Communicator> &comm, const Message &message,
                  rondo_stream_t stream);
/// Returns the communicator of the handle if the open group has calls of it, or null. Valid until the next call.
[[nodiscard]] const std::shared_ptr<Communicator> *find(rondo_comm_t handle);
/// A call inside the group was refused: the outermost end returns the first refusal.
void refuse(const Error &error);

/// Runs the body of a call that groups keep.
template <class Body>
Result<void> keep_refusal(Body &&body) {
  try {
    Result<void> result = body();
    if (!result.ok() && is_open()) refuse(result.error());
    return result;
  } catch (const std::bad_alloc &) {
    if (is_open()) refuse({RONDO_ERROR_OUT_OF_RESOURCES, "out of memory"});  // the text fits without allocating
    throw;
  }
}

}  // namespace rondo::group
