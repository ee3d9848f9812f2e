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
#include "src/core/diagnostics/last_error.h"
#include "src/core/process.h"

namespace rondo {

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
