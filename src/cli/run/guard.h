// SPDX-License-Identifier: Apache-2.0
// The guard is the process between launcher and ranks. It starts the ranks, and reports to the launcher how each of
// them ended. In three cases it ends all remaining processes:
// - The launcher dies, which closes its end of the control socket.
// - The launcher orders the end of the job.
// - The ranks have ended but left other processes.
//
// The guard has its own process group and blocks all signals. So neither a terminal nor a kill of the launcher's group
// reaches it. If the guard is stopped when the launcher dies, the kernel continues it (PR_SET_PDEATHSIG with SIGCONT).
#pragma once

#include "src/cli/run/rank.h"

namespace rondo::cli {

/// Runs the guard from its start to its end, in the new process. `launcher` is the process that forked it.
void run_guard(LaunchPlan plan, FileDescriptor control, pid_t launcher);

}  // namespace rondo::cli
