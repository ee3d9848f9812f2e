// SPDX-License-Identifier: Apache-2.0
// This file is the launcher's loop. It passes events to the Job and carries out the job's decisions until all processes
// have ended and all output is passed on.
#pragma once

#include "src/cli/run/rank.h"

namespace rondo::cli {

/// Runs the job of `plan` (see launch_guard()) and returns the exit status. It reports errors on standard error.
[[nodiscard]] int supervise(LaunchPlan plan);

}  // namespace rondo::cli
