// SPDX-License-Identifier: Apache-2.0
// `rondo train`: the reference data-parallel trainer. docs/trainer.md tells what it does and measures.
#pragma once

#include <span>

namespace rondo {

/// The whole of the program `rondo-train`.
/// @param args  what follows "train" on the command line.
/// @return the exit status: 0; 1: training diverged; 2: bad options or input; 3: communication failed.
[[nodiscard]] int run_train(std::span<const char *const> args);

}  // namespace rondo
