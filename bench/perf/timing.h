// SPDX-License-Identifier: Apache-2.0
// This file times and checks the runs of one size and placement.
//
// In a run, every rank writes new inputs (unless --no-rewrite), all ranks meet at a barrier, and then the calls are
// timed. The clock is read before and after them; on a device, events on the stream mark these times. The time of a run
// is the slowest rank's time. The number of runs can be requested. Otherwise, it is what fits into time_budget_ns at
// the speed of the last warm-up run, between iterations_min and iterations_max. The verified runs come after the timed
// runs, when the library is warm; their times do not count.
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
inline constexpr uint32_t iterations_unmeasured = 20;  ///< without a warm-up run, no time of a run is known

/// Returns the number of warm-up runs if none was requested.
[[nodiscard]] constexpr uint32_t default_warmups(size_t bytes) { return bytes <= size_t{1} << 20 ? 5 : 2; }

/// Returns the number of timed runs, if none was requested. `run_ns` is the whole time of one run, including its
/// inputs.
[[nodiscard]] uint32_t default_iterations(std::optional<double> run_ns);

/// The objects that one rank needs for a run.
struct Session {
  const Options &options;
  rondo_comm_t comm;
  rondo_stream_t stream;  ///< a host stream; null if calls block
  Device *device;         ///< null if buffers are in host memory
  Group group;
  Device *first = nullptr;      ///< with --one-graph: the device of rank 0, which has the graph
  OtherComm *other = nullptr;  ///< another library, whose calls are made instead of Rondo's
  uint64_t *start = nullptr;    ///< with --together: the word for which all streams wait
  uint64_t start_count = 0;     ///< runs that used the word, including the next one; equal on all ranks
  uint64_t run_count = 0;       ///< runs so far, equal on all ranks; each has other inputs
};

/// The time of one call on one rank.
struct CallTime {
  double call_ns = 0;
  double host_ns = 0;  ///< on a device: the time until the call returns, or its share of the replay of a graph
};

/// Measures `shape` of `what`. Afterwards `times` is equal on all ranks.
[[nodiscard]] Outcome measure(Session &session, const Case &what, const Shape &shape, Placement placement,
                              Workspace &workspace, Times &times);

}  // namespace rondo::perf
