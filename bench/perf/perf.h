// SPDX-License-Identifier: Apache-2.0
// `rondo perf`: times and verifies the collectives. docs/benchmark.md explains what it measures.
#pragma once

#include <span>

#include "bench/perf/device.h"

namespace rondo {

/// Runs the benchmark.
/// @param args     what follows "perf" on the command line.
/// @param devices  what --device cuda means.
/// @return the exit status: 0 done, 1 a result was wrong, 2 bad options, 3 communication failed.
[[nodiscard]] int run_perf(std::span<const char *const> args, perf::Devices &devices);

}  // namespace rondo
