// SPDX-License-Identifier: Apache-2.0
// This file declares `rondo train`, the reference data-parallel trainer. docs/trainer.md describes it and its
// measurements.
#pragma once

#include <span>

#include "bench/trainer/cuda/device.h"

namespace rondo {

/// Runs the whole program `rondo-train`.
/// @param args  the arguments after "train" on the command line
/// @param devices  for --device cuda; not used without that option
/// @return the exit status: 0 for success, 1 if training diverged, 2 for bad options or input, 3 if communication
/// failed
[[nodiscard]] int run_train(std::span<const char *const> args, train::Devices &devices);

}  // namespace rondo
