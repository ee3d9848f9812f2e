// SPDX-License-Identifier: Apache-2.0
// Declares the subcommands of `rondo`. Each takes the arguments after its own name and parses them itself, `--help`
// included (CLI11). It returns the exit status: 0 done, 1 failed, 2 used wrongly. `run` has more (docs/launching.md). A
// new subcommand is added by its function here, its file, and one line of the table in main.cpp.
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
[[nodiscard]] int run_train(Arguments args);  ///< does not return where the trainer is
[[nodiscard]] int run_tune(Arguments args);

}  // namespace rondo::cli
