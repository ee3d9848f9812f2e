// SPDX-License-Identifier: Apache-2.0
// This file has the scenarios of rank_program that last: sums for a while, silence for a while, and a rank that never
// calls again. Each prints "rank R begun" after its first sum.
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/proc/rank_program.h"

namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point after(const std::string &seconds) {
  return Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(std::stod(seconds) * 1000));
}

int begin(const Rank &self, std::vector<int32_t> &values) {
  const int outcome = sum_once(self, values.data(), values.size(), 0);
  std::printf("rank %d begun\n", self.rank);
  std::fflush(stdout);
  return outcome;
}

/// Prints the time of the last call, by a clock that all processes of the machine share.
void tell_return(const Rank &self) {
  const auto now = Clock::now().time_since_epoch();
  std::printf("rank %d returned %lld\n", self.rank,
              static_cast<long long>(std::chrono::duration_cast<std::chrono::microseconds>(now).count()));
  std::fflush(stdout);
}

}  // namespace

/// busy SECONDS COUNT: sums until rank 0 says that the time is over. Prints when the last call returned.
int run_busy(const Rank &self, const Arguments &args) {
  constexpr int rounds_per_look = 16;
  const auto end = after(args[0]);
  std::vector<int32_t> values(std::stoul(args[1]));
  int outcome = begin(self, values);
  for (int32_t over = 0; over == 0 && outcome == RONDO_OK;) {
    for (int round = 1; round <= rounds_per_look && outcome == RONDO_OK; ++round)
      outcome = sum_once(self, values.data(), values.size(), round);
    over = Clock::now() >= end ? 1 : 0;
    if (outcome == RONDO_OK) outcome = rondo_broadcast(&over, &over, 1, RONDO_INT32, 0, self.comm, nullptr);
  }
  tell_return(self);
  return finish(self, outcome);
}

/// quiet SECONDS|FILE: after some sums, only polls for asynchronous errors, and then sums once more. It polls for
/// SECONDS, or until the file exists.
int run_quiet(const Rank &self, const Arguments &args) {
  constexpr int sums_before = 20;
  const bool is_path = args[0].starts_with('/');
  const auto end = after(is_path ? "1000" : args[0]);
  const auto is_over = [&] { return Clock::now() >= end || (is_path && ::access(args[0].c_str(), F_OK) == 0); };
  std::vector<int32_t> values(1000);
  int outcome = RONDO_OK;
  for (int round = 1; round <= sums_before && outcome == RONDO_OK; ++round)
    outcome = sum_once(self, values.data(), values.size(), round);
  if (outcome == RONDO_OK) outcome = begin(self, values);
  rondo_status_t failed = RONDO_OK;
  while (outcome == RONDO_OK && failed == RONDO_OK && !is_over()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (rondo_comm_get_async_error(self.comm, &failed) != RONDO_OK) return 4;
  }
  if (outcome == RONDO_OK && failed != RONDO_OK) outcome = failed;
  if (outcome == RONDO_OK) outcome = sum_once(self, values.data(), values.size(), 1);
  return finish(self, outcome);
}

/// last SECONDS COUNT: after some sums each rank prints when its last call returned. The last rank then sleeps.
int run_last(const Rank &self, const Arguments &args) {
  std::vector<int32_t> values(std::stoul(args[1]));
  int outcome = begin(self, values);
  for (int round = 1; round <= 20 && outcome == RONDO_OK; ++round)
    outcome = sum_once(self, values.data(), values.size(), round);
  tell_return(self);
  if (self.rank == self.size - 1) std::this_thread::sleep_until(after(args[0]));
  return finish(self, outcome);
}
