// SPDX-License-Identifier: Apache-2.0
// Runs each rank through every type, operation, size and placement in the same order; rank 0 prints.
#pragma once

#include <vector>

#include "bench/perf/against.h"
#include "bench/perf/group.h"
#include "bench/perf/options.h"
#include "bench/perf/product.h"
#include "bench/perf/perf_report.h"

namespace rondo::perf {

/// The parts that a rank has before it begins.
struct RankParts {
  const Options &options;
  rondo_comm_t comm;               ///< whose calls are timed
  rondo_comm_t control;            ///< on host memory; the same one, where buffers are
  Device *device;                  ///< null: host memory
  const OtherLibrary *other;       ///< of --against; null if none
  const ProductLibrary *products;  ///< of --beside-product; null if none
  uint64_t setup_ns;               ///< that making `comm` took
  Team *team;                      ///< shared by ranks that are threads of this process; null if they are processes
};

/// Runs all cases as one rank. `all` receives the results, equal on every rank. Does not end the communicators; after
/// a failure the one whose calls are timed is aborted.
[[nodiscard]] Outcome run_rank(const RankParts &parts, std::vector<Series> &all);

}  // namespace rondo::perf
