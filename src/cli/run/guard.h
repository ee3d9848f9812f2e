// SPDX-License-Identifier: Apache-2.0
// The guard is the process between launcher and ranks. It starts the ranks and reports to the launcher how each ended.
// It ends whatever would be left behind in three cases:
// - The launcher dies, which closes its end of the control socket.
// - The launcher orders the end of the job.
// - The ranks have ended but left other processes.
//
// The guard is in a process group of its own and blocks all signals. So neither a terminal nor a kill of the launcher's
// group reaches it. If it was stopped, the launcher's death continues it (PR_SET_PDEATHSIG with SIGCONT).
#pragma once

#include "src/cli/run/rank.h"

namespace rondo::cli {

/// Runs the guard's whole life in the new process. `launcher` is the process that forked it.
void run_guard(LaunchPlan plan, FileDescriptor control, pid_t launcher);

}  // namespace rondo::cli
