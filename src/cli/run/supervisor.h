// SPDX-License-Identifier: Apache-2.0
// The launcher's loop: events in, the job's decisions out, until all has ended and all output is passed on.
#pragma once

#include "src/cli/run/rank.h"

namespace rondo::cli {

/// Runs the job of `plan` (see launch_guard) and returns the exit status. Reports errors on standard error.
[[nodiscard]] int supervise(LaunchPlan plan);

}  // namespace rondo::cli
