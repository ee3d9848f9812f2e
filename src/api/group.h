// SPDX-License-Identifier: Apache-2.0
// This file keeps the calls of a thread between rondo_group_begin() and rondo_group_end(). The outermost
// rondo_group_end() enqueues them. A thread's group is a mutable global, because a C caller has no object that could
// hold the group. Rondo has few such globals; src/api/boundary.h lists the others.
#pragma once

#include <memory>
#include <new>

#include "src/base/result.h"
#include "src/core/communicator.h"

namespace rondo::group {

/// Returns whether this thread has an open group, which keeps the thread's calls.
[[nodiscard]] bool is_open() noexcept;
/// Refuses the call of a function that cannot be part of a group, if this thread has a group.
[[nodiscard]] Result<void> check_outside(const char *function);

void begin();
/// Ends the innermost group. The end of the outermost group runs the kept calls.
Result<void> end();
Result<void> cancel();

class Group;
struct Part;

/// The place of a call in the open group. It is valid until the thread's next call.
struct Place {
  Group *group = nullptr;        ///< null if this thread has no group
  Part *part = nullptr;          ///< null if the group has no call on the communicator yet
  Communicator *comm = nullptr;  ///< null if `part` is null
  bool has_messages = false;     ///< true if messages are among the calls of the part
};
[[nodiscard]] Place find(rondo_comm_t handle);

/// Keeps a call in the open group. The group copies the counts and displacements.
Result<void> keep(rondo_comm_t handle, const std::shared_ptr<Communicator> &comm, const Call &call,
                  rondo_stream_t stream);
/// Keeps a message at its place. `comm` may be null if the place has a communicator.
void keep(const Place &place, rondo_comm_t handle, std::shared_ptr<Communicator> &&comm, const Message &message,
          rondo_stream_t stream);
/// Keeps a one-sided operation at its place, as keep() does for a message.
void keep(const Place &place, rondo_comm_t handle, std::shared_ptr<Communicator> &&comm, const OneSided &operation,
          rondo_stream_t stream);
/// Notes that a call inside the group was refused. The outermost group's end returns the first such error.
void refuse(const Error &error);

/// Runs `body`, the code of an API call. If `body` fails while this thread has a group, notes the refusal in the group.
template <class Body>
Result<void> keep_refusal(Body &&body) {
  try {
    Result<void> result = body();
    if (!result.ok() && is_open()) refuse(result.error());
    return result;
  } catch (const std::bad_alloc &) {
    if (is_open()) refuse({RONDO_ERROR_OUT_OF_RESOURCES, "out of memory"});  // the text needs no allocation
    throw;
  }
}

}  // namespace rondo::group
