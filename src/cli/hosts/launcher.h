// SPDX-License-Identifier: Apache-2.0
// This file is the launcher of `rondo run --hosts`, for ranks on several hosts. Every host must report that it can
// start its ranks before any rank is started. The agent of the first host runs the store at which all ranks meet.
#pragma once

#include "src/cli/run/options.h"

namespace rondo::cli {

/// Runs the job and returns the exit status. It reports errors on standard error.
[[nodiscard]] int run_on_hosts(const RunOptions &options);

}  // namespace rondo::cli
