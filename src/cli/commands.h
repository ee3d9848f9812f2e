// SPDX-License-Identifier: Apache-2.0
// This file declares the subcommands of `rondo`. Each parses the arguments after its name with CLI11, including
// `--help`, and returns the exit status: 0 for success, 1 for failure, 2 for wrong usage. `run` has more statuses
// (docs/launching.md). To add a subcommand, add its function here, its file, and one line to the table in main.cpp.
#pragma once

#include <span>

namespace rondo::cli {

using Arguments = std::span<const char *const>;

constexpr int exit_failed = 1;
constexpr int exit_usage = 2;

[[nodiscard]] int run_info(Arguments args);
[[nodiscard]] int run_nccl(Arguments args);
[[nodiscard]] int run_perf(Arguments args);
[[nodiscard]] int run_run(Arguments args);
[[nodiscard]] int run_schedule(Arguments args);
[[nodiscard]] int run_sim(Arguments args);
[[nodiscard]] int run_status(Arguments args);
[[nodiscard]] int run_trace(Arguments args);
[[nodiscard]] int run_train(Arguments args);  ///< replaces the process by rondo-train; returns only if that fails
[[nodiscard]] int run_tune(Arguments args);

}  // namespace rondo::cli
