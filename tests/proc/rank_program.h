// SPDX-License-Identifier: Apache-2.0
// The scenarios of rank_program share this file: sums with checks, and the line that a rank prints at its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "rondo/rondo.h"

using Arguments = std::vector<std::string>;

struct Rank {
  rondo_comm_t comm = nullptr;
  int rank = 0;
  int size = 1;
};

inline int report(const Rank &self, rondo_status_t status) {
  rondo_error_t error = RONDO_ERROR_INIT;
  if (status != RONDO_OK) static_cast<void>(rondo_comm_last_error(self.comm, &error));
  std::printf("rank %d: %s peer %d operation %llu: %s\n", self.rank, rondo_status_string(status), error.peer,
              static_cast<unsigned long long>(error.operation), error.message);
  std::fflush(stdout);
  return status == RONDO_OK ? 0 : 1;
}

/// Sums over all ranks and checks the result. Returns the status, or -1 if the sum was wrong.
inline int sum_once(const Rank &self, void *memory, size_t count, int round) {
  auto *values = static_cast<int32_t *>(memory);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<int32_t>(i % 1000) + self.rank + round;
  const rondo_status_t status = rondo_all_reduce(values, values, count, RONDO_INT32, RONDO_SUM, self.comm, nullptr);
  if (status != RONDO_OK) return status;
  for (size_t i = 0; i < count; ++i)
    if (values[i] != (static_cast<int32_t>(i % 1000) + round) * self.size + self.size * (self.size - 1) / 2) return -1;
  return RONDO_OK;
}

inline int finish(const Rank &self, int outcome) {
  if (outcome == -1) {
    std::printf("rank %d: WRONG SUM\n", self.rank);
    return 3;
  }
  return report(self, static_cast<rondo_status_t>(outcome));
}

/// Runs rounds of sums, and calls `before` with each round's number.
template <class Before>
int sums(const Rank &self, int rounds, size_t count, Before before) {
  std::vector<int32_t> values(count);
  int outcome = RONDO_OK;
  for (int round = 1; round <= rounds && outcome == RONDO_OK; ++round) {
    before(round);
    outcome = sum_once(self, values.data(), count, round);
  }
  return finish(self, outcome);
}

// rank_buffers.cpp
int run_lend(const Rank &self, const Arguments &args);
int run_replace(const Rank &self, const Arguments &args);
int run_buffers(const Rank &self, const Arguments &args);
int run_huge(const Rank &self, const Arguments &args);

// rank_messages.cpp
int run_programs(const Rank &self, const Arguments &args);
int run_last_words(const Rank &self, const Arguments &args);
int run_other_size(const Rank &self, const Arguments &args);
int run_unanswered(const Rank &self, const Arguments &args);

// rank_windows.cpp
int run_windows(const Rank &self, const Arguments &args);
int run_last_put(const Rank &self, const Arguments &args);

// rank_soak.cpp
int run_busy(const Rank &self, const Arguments &args);
int run_quiet(const Rank &self, const Arguments &args);
int run_last(const Rank &self, const Arguments &args);
