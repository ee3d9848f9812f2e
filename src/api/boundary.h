// SPDX-License-Identifier: Apache-2.0
// Every C entry point runs its body in at_boundary() or at_light_boundary(). Both functions refuse a call in a child of
// fork() whose parent has used Rondo. Both turn a Result into a status and the thread's last error. Both catch
// exceptions, since the standard library may throw for lack of memory or threads.
#pragma once

#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include "src/base/result.h"
#include "src/core/process.h"

namespace rondo {

// These functions keep each thread's last refused or failed call, for rondo_comm_last_error(NULL, ...). This is an
// exception to "no mutable globals", because a C caller has no object that could hold this state. The other exceptions
// are src/core/process.h and src/api/group.h.

/// Stores `error` as this thread's last failure and returns its status. If memory runs out, only the status is stored.
[[nodiscard]] rondo_status_t fail(const Error &error) noexcept;

/// Returns this thread's last failure. Its status is RONDO_OK if no call of this thread has failed.
[[nodiscard]] const Error &last_error() noexcept;

/// Records that this thread's last failure belongs to a call on `comm`.
void set_failed_communicator(rondo_comm_t comm) noexcept;

/// Returns this thread's last failure if it is a refused call on `comm`, which had no effect. Otherwise returns null.
[[nodiscard]] const Error *last_refusal(rondo_comm_t comm) noexcept;

/// Returns a copy of `message`, or "out of memory". The text is valid until this thread calls hold_message() again.
[[nodiscard]] const char *hold_message(const std::string &message) noexcept;

/// Converts the result of a C function to its status: `return to_status(result)`. A success does not change the last
/// failure.
template <class T>
[[nodiscard]] rondo_status_t to_status(const Result<T> &result) noexcept {
  return result.ok() ? RONDO_OK : fail(result.error());
}

/// Runs `body`, which returns a Result<void>, as the body of a C function after which children of fork() may still use
/// Rondo. `body` may use servers of unique ids, but no other thread or memory of process().
template <class Body>
[[nodiscard]] rondo_status_t at_light_boundary(Body &&body) noexcept {
  try {
    if (is_forked()) return to_status(check_not_forked());
    return to_status(std::forward<Body>(body)());
    // These messages are so short that std::string needs no allocation.
  } catch (const std::bad_alloc &) {
    return fail({RONDO_ERROR_OUT_OF_RESOURCES, "out of memory"});
  } catch (const std::system_error &) {
    return fail({RONDO_ERROR_OUT_OF_RESOURCES, "out of threads"});
  } catch (const std::exception &) {
    return fail({RONDO_ERROR_INTERNAL, "exception"});
  }
}

/// Runs `body` as the body of any other C function. Later children of fork() may not use Rondo.
template <class Body>
[[nodiscard]] rondo_status_t at_boundary(Body &&body) noexcept {
  static_cast<void>(begin_use());
  return at_light_boundary(std::forward<Body>(body));
}

/// Runs `body` as the body of a call on a communicator.
template <class Body>
[[nodiscard]] rondo_status_t at_boundary(rondo_comm_t comm, Body &&body) noexcept {
  const rondo_status_t status = at_boundary(std::forward<Body>(body));
  if (status != RONDO_OK) set_failed_communicator(comm);
  return status;
}

}  // namespace rondo
