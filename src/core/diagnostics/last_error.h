// SPDX-License-Identifier: Apache-2.0
// The last refused or failed call of each thread, which rondo_comm_last_error(NULL, ...) reports. One of the two
// exceptions to "no mutable globals" (the other is src/core/process.h): C callers have no other place for it.
#pragma once

#include "src/base/result.h"

namespace rondo {

/// Keeps `error` as this thread's last one and returns its status. When memory runs out, the status alone is kept.
[[nodiscard]] rondo_status_t fail(const Error &error) noexcept;

/// Returns this thread's last failure; its status is RONDO_OK when there was none.
[[nodiscard]] const Error &last_error() noexcept;

/// Notes that this thread's last failure was of a call on `comm`.
void set_failed_communicator(rondo_comm_t comm) noexcept;

/// Returns this thread's last failure if it was the refusal of a call on `comm`, after which all is as before.
/// Otherwise returns null.
[[nodiscard]] const Error *last_refusal(rondo_comm_t comm) noexcept;

/// Returns a copy of `message` that stays until this thread's next call of this; "out of memory" if memory ran out.
[[nodiscard]] const char *hold_message(const std::string &message) noexcept;

/// Ends a function of the C boundary: `return to_status(result)`. A success leaves the last error as it is.
template <class T>
[[nodiscard]] rondo_status_t to_status(const Result<T> &result) noexcept {
  return result.ok() ? RONDO_OK : fail(result.error());
}

}  // namespace rondo
