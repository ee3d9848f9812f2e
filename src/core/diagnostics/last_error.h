// SPDX-License-Identifier: Apache-2.0
// This file keeps each thread's last refused or failed call, for rondo_comm_last_error(NULL, ...). It is an exception
// to "no mutable globals", because a C caller has no object that could hold this state. The other exceptions are
// src/core/process.h and src/api/group.h.
#pragma once

#include "src/base/result.h"

namespace rondo {

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

}  // namespace rondo
