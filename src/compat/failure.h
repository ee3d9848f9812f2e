// SPDX-License-Identifier: Apache-2.0
// Results of NCCL's interface, and the sentence that ncclGetLastError() returns.
#pragma once

#include <string>

#include "rondo/rondo.h"
#include "src/compat/abi.h"

namespace rondo::compat {

/// Keeps `sentence` as the process's last error, and returns `result`. Any thread.
ncclResult_t fail(ncclResult_t result, const std::string &sentence);

/// Returns the result that stands for `status`. Any thread.
[[nodiscard]] ncclResult_t result_of(rondo_status_t status);

/// Returns the result that stands for the failure of a call of Rondo that this thread made last, and keeps its
/// message. `comm` is the communicator of the call, or null. RONDO_OK gives ncclSuccess.
ncclResult_t pass_on(rondo_status_t status, rondo_comm_t comm);

/// Returns a copy of the last error that stays valid until this thread's next call. Any thread may call it.
[[nodiscard]] const char *last_failure();

/// Returns `text` as one that lives until this thread calls this or last_failure() again.
[[nodiscard]] const char *hold_text(const std::string &text);

/// Writes the release that programs get: 23007, or the value of RONDO_NCCL_VERSION ("2.28.9" or "22809").
ncclResult_t reported_version(int *version);

}  // namespace rondo::compat
