// SPDX-License-Identifier: Apache-2.0
// Prepares the launcher: its own state as a process, the pipes, and the guard, forked before there is a thread.
#pragma once

#include "src/cli/run/rank.h"
#include "src/cli/run/streams.h"

namespace rondo::cli {

struct Pipe {
  FileDescriptor read;
  FileDescriptor write;
};

[[nodiscard]] Result<Pipe> make_pipe();

struct Launched {
  FileDescriptor control;  ///< to the guard
  FileDescriptor signals;  ///< a signalfd
  LauncherStreams streams;
  pid_t guard = 0;
};

/// Prepares a launcher without a guard of its own. Its signals become events, and it inherits orphans of its children.
[[nodiscard]] Result<FileDescriptor> prepare_launcher();

/// `plan` needs options, program_path and processors; the rest is filled in here. Call once, with one thread. The guard
/// runs inside this call in its own process, and does not return from it.
[[nodiscard]] Result<Launched> launch_guard(LaunchPlan plan);

}  // namespace rondo::cli
