// SPDX-License-Identifier: Apache-2.0
// Times and checks the runs of one size and placement.
//
// In a run, every rank writes fresh inputs (unless --no-rewrite), all meet at a barrier, then the calls are timed. The
// clock is read around them; on a device events on the stream stand before and after them. The time of a run is the
// slowest rank's. If no number of runs was requested, a size gets as many as fit into time_budget_ns by the time of the
// last warm-up run, from iterations_min to iterations_max. The verified runs come after the timed ones, with the
// library warm; their times do not count.
#pragma once

#include <cstdint>
#include <optional>

#include "bench/perf/against.h"
#include "bench/perf/device.h"
#include "bench/perf/group.h"
#include "bench/perf/options.h"
#include "bench/perf/perf_report.h"
#include "bench/perf/verify.h"

namespace rondo::perf {

inline constexpr uint64_t time_budget_ns = 300'000'000;
inline constexpr uint32_t iterations_min = 5;
inline constexpr uint32_t iterations_max = 100;
inline constexpr uint32_t iterations_unmeasured = 20;  ///< without a warm-up run there is nothing to go by

/// Returns the number of warm-up runs if none was requested.
[[nodiscard]] constexpr uint32_t default_warmups(size_t bytes) { return bytes <= size_t{1} << 20 ? 5 : 2; }

/// Returns the number of timed runs if none was requested. `run_ns` is the time of one run with all that belongs to it.
[[nodiscard]] uint32_t default_iterations(std::optional<double> run_ns);

/// One rank's hold on all that a run needs.
struct Session {
  const Options &options;
  rondo_comm_t comm;
  rondo_stream_t stream;  ///< of the host; null if the calls block
  Device *device;         ///< null: buffers are host memory
  Group group;
  Device *first = nullptr;      ///< with --one-graph: rank 0's, which has the graph
  OtherComm *other = nullptr;  ///< whose calls are made instead of Rondo's
  uint64_t *start = nullptr;    ///< with --together: the word at which all streams begin
  uint64_t start_count = 0;     ///< runs that it has begun, or is about to; equal on all ranks
  uint64_t run_count = 0;       ///< runs so far, equal on all ranks: each has inputs of its own
};

/// Measures `shape` of `what`; `times` is equal on all ranks then.
[[nodiscard]] Outcome measure(Session &session, const Case &what, const Shape &shape, Placement placement,
                              Workspace &workspace, Times &times);

}  // namespace rondo::perf
