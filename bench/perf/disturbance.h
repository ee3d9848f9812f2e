// SPDX-License-Identifier: Apache-2.0
// This file finds out whether other programs used a rank's processor while a row was measured. It compares the kernel's
// counters before and after the row, for the thread and the host. Its result is only reported; no time is corrected.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/failure.h"
#include "bench/perf/group.h"

namespace rondo::perf {

/// Counters at one moment, all in nanoseconds.
struct LoadReading {
  uint64_t time_ns = 0;
  uint64_t waited_ns = 0;   ///< this thread was ready to run, but had no processor (schedstat; 0 without it)
  uint64_t process_ns = 0;  ///< processor time of this process
  uint64_t busy_ns = 0;     ///< processor time of all processes on the host
  uint64_t idle_ns = 0;
  uint64_t stolen_ns = 0;  ///< processor time that the hypervisor took away
};

[[nodiscard]] LoadReading read_load();

/// Shares of the time that a row took, for the rank with the largest shares.
struct Disturbance {
  double waited = 0;  ///< 0.4: a rank was ready to run and had no processor for 40 % of the time
  double others = 0;  ///< 1.5: other programs of its host used one and a half processors
  double stolen = 0;  ///< 0.1: a tenth of the processors' time went to other guests of the machine
  bool marked = false;
};

/// Judges the load between two readings.
/// @param job_ns         processor time of all ranks of this host
/// @param oversubscribed  there are more ranks than processors, so waiting for each other is no disturbance
[[nodiscard]] Disturbance judge_load(const LoadReading &before, const LoadReading &after, uint64_t job_ns,
                                     bool oversubscribed);

/// Combines the results of judge_load() of all ranks. The result is equal on all ranks.
[[nodiscard]] Outcome find_disturbance(Group &group, std::span<const Member> members, const LoadReading &before,
                                       bool oversubscribed, Disturbance &found);

}  // namespace rondo::perf
