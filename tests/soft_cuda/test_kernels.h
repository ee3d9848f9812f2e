// SPDX-License-Identifier: Apache-2.0
// What the kernels of test_kernels.cpp take.
#pragma once

#include <atomic>
#include <cstdint>

namespace soft_cuda {

/// test_fill: to[i] = value + i
struct FillParameters {
  uint64_t *to;
  uint64_t count;
  uint64_t value;
};

/// test_await: ends when *word >= value
struct AwaitParameters {
  uint64_t *word;
  uint64_t value;
};

/// test_meet: ends when `more` beside all blocks of the grid have arrived
struct MeetParameters {
  uint64_t *arrived;
  uint64_t more;
};

/// test_count_threads: counts[block] = threads of the block
struct CountParameters {
  uint64_t *counts;
};

}  // namespace soft_cuda
