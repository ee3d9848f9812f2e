// SPDX-License-Identifier: Apache-2.0
// This file describes how a rank is started, and leads the new process from fork to exec.
#pragma once

#include <signal.h>
#include <sys/resource.h>

#include <string>
#include <vector>

#include "src/base/unique_handle.h"
#include "src/cli/run/control.h"
#include "src/cli/run/options.h"
#include "src/topo/host.h"

namespace rondo::cli {

/// A rank's ends of the pipes to the launcher. If one is invalid, the rank inherits the launcher's descriptor.
struct RankStreams {
  FileDescriptor output;
  FileDescriptor error;
};

/// The data that is needed to start ranks. The launcher makes it before it forks the guard, which inherits it.
struct LaunchPlan {
  RunOptions options;
  std::string program_path;
  uint32_t first_rank = 0;      ///< the first rank of this host, in a job of several hosts
  uint32_t job_rank_count = 0;  ///< ranks of all hosts, or 0 for options.rank_count
  std::vector<Processors> processors;  ///< for the ranks in turn; empty if they are not bound
  std::vector<RankStreams> streams;    ///< by rank
  FileDescriptor input;                ///< rank 0's standard input; invalid if it is the launcher's own
  FileDescriptor null_input;          ///< /dev/null, for the other ranks
  sigset_t signal_mask{};             ///< as it was before the launcher blocked signals
  rlimit descriptor_limit{};          ///< as it was before the launcher raised it
};

/// Sets the processors of the ranks, from their number and their binding in `plan`. Returns an error if --bind core
/// finds no core.
[[nodiscard]] Result<void> divide_processors(LaunchPlan &plan);

/// A rank that could not become the program sends this message through a pipe. It arrives whole, because it is shorter
/// than PIPE_BUF.
struct StartFailureRecord {
  uint32_t rank = 0;
  StartFailure failure = StartFailure::none;
  int32_t error_number = 0;
};

/// Becomes rank `rank` of this host, in the job that `start` describes. It runs in the new process, with all signals
/// still blocked.
[[noreturn]] void become_rank(const LaunchPlan &plan, const Order &start, uint32_t rank, pid_t guard, int failures);

}  // namespace rondo::cli
