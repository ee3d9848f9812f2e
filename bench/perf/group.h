// SPDX-License-Identifier: Apache-2.0
// The ranks communicate by this outside of the timed runs: barriers, maxima, sums, where they run.
//
// Ranks that are threads use memory that they share (Team), so that a defect of the library cannot spoil its own
// verdict. Ranks that are processes have only the library, and each of them also fails by its own count.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "bench/failure.h"
#include "bench/perf/device.h"
#include "rondo/rondo.h"

namespace rondo::perf {

/// The place where a rank runs; plain data that is exchanged as bytes.
struct Member {
  char host[56] = {};
  int64_t process = 0;
  DeviceName device;
};

/// Returns nanoseconds of CLOCK_MONOTONIC.
[[nodiscard]] uint64_t clock_ns();

/// The shared side of ranks that are threads of this process.
class Team {
 public:
  /// @param have_cores  each rank has a core of its own. Then a rank spins for long before it offers that core to
  ///                    other programs: a rank that leaves a wait late would be timed as a part of the next call.
  Team(int ranks, uint64_t timeout_ns, bool have_cores);

  /// Waits until all ranks have arrived. Returns a failure if one has failed, or did not arrive in time.
  [[nodiscard]] Outcome wait();
  /// Keeps the first failure and releases all that wait.
  void fail(const Failure &failure);
  [[nodiscard]] Outcome first_failure();

  std::vector<std::vector<double>> numbers;  ///< one entry a rank, its own; read by others between two waits
  std::vector<uint64_t> counts;              ///< likewise
  std::vector<Member> members;               ///< likewise
  std::vector<std::byte> blob;               ///< rank 0's; read by others between two waits

 private:
  const int ranks_;
  const uint64_t timeout_ns_;
  const uint32_t spins_before_yield_;
  std::atomic<int> arrived_{0};
  std::atomic<uint64_t> round_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  Outcome first_;  ///< under mutex_
};

class Group {
 public:
  /// @param comm  a communicator on host memory, for ranks that are processes.
  /// @param team  null: ranks are processes.
  Group(rondo_comm_t comm, int rank, int ranks, Team *team) : comm_(comm), rank_(rank), ranks_(ranks), team_(team) {}

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] Outcome barrier();
  /// Replaces each value by the largest of all ranks.
  [[nodiscard]] Outcome max(std::span<double> values);
  [[nodiscard]] Outcome sum(uint64_t &value);
  /// Gives rank 0's bytes to everybody.
  [[nodiscard]] Outcome broadcast(std::span<std::byte> bytes);
  [[nodiscard]] Outcome gather_members(const DeviceName &device, std::vector<Member> &members);

 private:
  rondo_comm_t comm_;
  int rank_, ranks_;
  Team *team_;
};

}  // namespace rondo::perf
