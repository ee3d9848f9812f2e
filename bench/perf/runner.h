// SPDX-License-Identifier: Apache-2.0
// This file runs each rank through every type, operation, size and placement in the same order. Rank 0 prints.
#pragma once

#include <vector>

#include "bench/perf/against.h"
#include "bench/perf/group.h"
#include "bench/perf/options.h"
#include "bench/perf/product.h"
#include "bench/perf/perf_report.h"

namespace rondo::perf {

/// The objects that a rank has before it begins.
struct RankParts {
  const Options &options;
  rondo_comm_t comm;               ///< the communicator whose calls are timed
  rondo_comm_t control;            ///< on host memory; the same as `comm` if buffers are there
  Device *device;                  ///< null for host memory
  const OtherLibrary *other;       ///< for --against; otherwise null
  const ProductLibrary *products;  ///< for --beside-product; otherwise null
  uint64_t setup_ns;               ///< time to make `comm`
  Team *team;                      ///< shared by ranks that are threads of this process; null if ranks are processes
};

/// Runs all cases as one rank. `all` receives the results, which are equal on every rank. It does not end the
/// communicators. After a failure, it aborts the communicator whose calls are timed.
[[nodiscard]] Outcome run_rank(const RankParts &parts, std::vector<Series> &all);

}  // namespace rondo::perf
