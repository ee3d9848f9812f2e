// SPDX-License-Identifier: Apache-2.0
// The guard: the process between launcher and ranks. It starts the ranks, tells the launcher how each ended, and sees
// to it that nothing stays behind: when the launcher dies (end of file on the control socket), when it is told to end
// the job, and when the ranks have ended but left other processes.
//
// It is in a process group of its own and blocks all signals, so neither a terminal nor a kill of the launcher's group
// reaches it; should it be stopped, the launcher's death continues it (PR_SET_PDEATHSIG with SIGCONT).
#pragma once

#include "src/cli/run/rank.h"

namespace rondo::cli {

/// In the new process: the guard's whole life. `launcher` is the process that forked it.
void run_guard(LaunchPlan plan, FileDescriptor control, pid_t launcher);

}  // namespace rondo::cli
