// SPDX-License-Identifier: Apache-2.0
// This file prepares the launcher: its state as a process, the pipes, and the guard, which is forked before any thread
// starts.
#pragma once

#include <cstdio>
#include <string>

#include "src/cli/commands.h"
#include "src/cli/run/rank.h"
#include "src/cli/run/streams.h"

namespace rondo::cli {

struct Pipe {
  FileDescriptor read;
  FileDescriptor write;
};

[[nodiscard]] Result<Pipe> make_pipe();

struct Launched {
  FileDescriptor control;  ///< socket to the guard
  FileDescriptor signals;  ///< a signalfd
  LauncherStreams streams;
  pid_t guard = 0;
};

/// Prepares a launcher without a guard process: its signals become events of the result, and orphans among its
/// descendants become its children.
[[nodiscard]] Result<FileDescriptor> prepare_launcher();

/// Starts the guard. The caller sets options, program_path and processors in `plan`, and this function sets the rest.
/// Call it once, with one thread. The guard is a new process, which runs within this call and does not return from it.
[[nodiscard]] Result<Launched> launch_guard(LaunchPlan plan);

/// Writes why `rondo run` does not run its job to standard error. Returns the exit status.
[[nodiscard]] inline int refuse_run(const std::string &message, int status = exit_failed) {
  std::fprintf(stderr, "rondo run: %s\n", message.c_str());
  return status;
}

}  // namespace rondo::cli
