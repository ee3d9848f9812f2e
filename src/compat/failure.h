// SPDX-License-Identifier: Apache-2.0
// This file converts results to NCCL's interface, and keeps the text that ncclGetLastError() returns.
#pragma once

#include <climits>
#include <string>

#include "rondo/rondo.h"
#include "src/compat/abi.h"

namespace rondo::compat {

/// The mark in every structure that NCCL's macros initialise, and the value of a number that the caller left out.
inline constexpr unsigned config_magic = 0xcafebeef;
inline constexpr int unset = INT_MIN;

/// Stores `sentence` as the process's last error, and returns `result`. Any thread.
[[gnu::cold]] ncclResult_t fail(ncclResult_t result, const std::string &sentence);

/// Fails with ncclInvalidArgument and the name of the function. Any thread.
[[gnu::cold]] ncclResult_t refuse(const char *function, const std::string &what);

/// Returns the result of NCCL that corresponds to `status`. Any thread.
[[nodiscard]] ncclResult_t result_of(rondo_status_t status);

/// Returns the result for the last call of Rondo on this thread, and stores its message. `status` is the status of that
/// call, and `comm` its communicator, or null. RONDO_OK gives ncclSuccess.
ncclResult_t pass_on(rondo_status_t status, rondo_comm_t comm);

/// Returns a copy of the last error, which is valid until this thread calls this function again. Any thread.
[[nodiscard]] const char *last_failure();

/// Returns a copy of `text`, which is valid until this thread calls this or last_failure() again.
[[nodiscard]] const char *hold_text(const std::string &text);

/// Writes the release that is reported to programs: 23007, or the value of RONDO_NCCL_VERSION ("2.28.9" or "22809").
ncclResult_t reported_version(int *version);

}  // namespace rondo::compat
