// SPDX-License-Identifier: Apache-2.0
// What each rank does: every type, operation, size and placement in the same order; rank 0 prints.
#pragma once

#include <vector>

#include "bench/perf/group.h"
#include "bench/perf/options.h"
#include "bench/perf/report.h"

namespace rondo::perf {

/// Runs all cases as one rank. `all` receives the results, equal on every rank. Does not end the communicator.
/// @param team  what the ranks share that are threads of this process; null: they are processes.
[[nodiscard]] Outcome run_rank(const Options &options, rondo_comm_t comm, Team *team, std::vector<Series> &all);

}  // namespace rondo::perf
