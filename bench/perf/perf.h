// SPDX-License-Identifier: Apache-2.0
// `rondo perf`: times and verifies the collectives. docs/benchmark.md explains what it measures.
#pragma once

#include <span>

#include "bench/perf/device.h"

namespace rondo {

/// Runs the benchmark.
/// @param args     the arguments after "perf" on the command line.
/// @param devices  the devices for --device cuda.
/// @return the exit status: 0 for success, 1 if a result was wrong, 2 for bad options, 3 if communication failed.
[[nodiscard]] int run_perf(std::span<const char *const> args, perf::Devices &devices);

}  // namespace rondo
