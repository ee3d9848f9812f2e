// SPDX-License-Identifier: Apache-2.0
// Finds out whether something else had a rank's processor while a row was measured. It compares the kernel's counts for
// the thread and for the host, before and after. It only reports, and changes no time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/failure.h"
#include "bench/perf/group.h"

namespace rondo::perf {

/// Counters of a moment, all in nanoseconds.
struct LoadReading {
  uint64_t time_ns = 0;
  uint64_t waited_ns = 0;   ///< by this thread, ready to run, for a processor (schedstat; 0 where there is none)
  uint64_t process_ns = 0;  ///< of processors, by this process
  uint64_t busy_ns = 0;     ///< of processors, by everybody on the host
  uint64_t idle_ns = 0;
  uint64_t stolen_ns = 0;  ///< by the hypervisor
};

[[nodiscard]] LoadReading read_load();

/// Shares of the time that a row took, the worst of all ranks.
struct Disturbance {
  double waited = 0;  ///< 0.4: a rank was ready to run and had no processor for 40 % of the time
  double others = 0;  ///< 1.5: other programs of its host used one and a half processors
  double stolen = 0;  ///< 0.1: a tenth of the processors' time went to other guests of the machine
  bool marked = false;
};

/// Judges the load between two readings.
/// @param job_ns         of processors, by all ranks of this host.
/// @param oversubscribed more ranks than processors, so that waiting for each other is no disturbance.
[[nodiscard]] Disturbance judge_load(const LoadReading &before, const LoadReading &after, uint64_t job_ns,
                                     bool oversubscribed);

/// Puts judge_load() of every rank together; the result is equal on all ranks.
[[nodiscard]] Outcome find_disturbance(Group &group, std::span<const Member> members, const LoadReading &before,
                                       bool oversubscribed, Disturbance &found);

}  // namespace rondo::perf
