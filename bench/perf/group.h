// SPDX-License-Identifier: Apache-2.0
// This file lets ranks communicate outside the timed runs: barriers, maxima, sums, and where they run.
//
// Ranks that are threads use memory that they share (Team), so a defect of the library cannot hide itself. Ranks that
// are processes can only use the library under test. So a process also fails if it has counted wrong elements itself.
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

/// The place where a rank runs. It is plain data, which ranks exchange as bytes.
struct Member {
  char host[56] = {};
  int64_t process = 0;
  DeviceName device;
};

/// Returns nanoseconds of CLOCK_MONOTONIC.
[[nodiscard]] uint64_t clock_ns();

/// The data that ranks share if they are threads of this process.
class Team {
 public:
  /// @param have_cores  each rank has a core of its own. Then a rank spins for long before it offers the core to other
  ///                    programs, because a late return from the wait would count as time of the next call.
  Team(int ranks, uint64_t timeout_ns, bool have_cores);

  /// Waits until all ranks have arrived. Returns a failure if a rank has failed, or has not arrived in time.
  [[nodiscard]] Outcome wait();
  /// Stores the first failure, and releases all ranks that wait.
  void fail(const Failure &failure);
  [[nodiscard]] Outcome first_failure();

  std::vector<std::vector<double>> numbers;  ///< each rank writes its own entry; others read it between two waits
  std::vector<uint64_t> counts;              ///< written and read in the same way
  std::vector<Member> members;               ///< written and read in the same way
  std::vector<std::byte> blob;               ///< written by rank 0; read by others between two waits

 private:
  const int ranks_;
  const uint64_t timeout_ns_;
  const uint32_t spins_before_yield_;
  std::atomic<int> arrived_{0};
  std::atomic<uint64_t> round_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  Outcome first_;  ///< protected by mutex_
};

class Group {
 public:
  /// @param comm  a communicator on host memory, for ranks that are processes
  /// @param team  null if ranks are processes
  Group(rondo_comm_t comm, int rank, int ranks, Team *team) : comm_(comm), rank_(rank), ranks_(ranks), team_(team) {}

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] Outcome barrier();
  /// Replaces each value by the largest value of all ranks.
  [[nodiscard]] Outcome max(std::span<double> values);
  [[nodiscard]] Outcome sum(uint64_t &value);
  /// Sends rank 0's bytes to all ranks.
  [[nodiscard]] Outcome broadcast(std::span<std::byte> bytes);
  [[nodiscard]] Outcome gather_members(const DeviceName &device, std::vector<Member> &members);

 private:
  rondo_comm_t comm_;
  int rank_, ranks_;
  Team *team_;
};

}  // namespace rondo::perf
