// SPDX-License-Identifier: Apache-2.0
// This file counts the memory accesses of kernels on emulated blocks (src/proto/access_counts.h). The library of
// kernels is compiled with RONDO_COUNT_ACCESSES, so that src/proto/memory.h reports each access. Without a counter, a
// thread only pays one read of a thread-local pointer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/proto/access_counts.h"
#include "tests/soft_cuda/soft_kernel.h"

namespace soft_cuda {

/// Devices with ordinals from this one on do not appear in rondo_moved_bytes().
inline constexpr size_t counted_device_count = 8;

/// While counting is on, counts what the calling thread does while this object exists. `rank` must be equal for all
/// blocks of a rank, and different for other ranks.
class CountedThread {
 public:
  CountedThread(const Block &block, uint32_t thread, const void *rank, bool is_first_block);
  CountedThread(const CountedThread &) = delete;
  CountedThread &operator=(const CountedThread &) = delete;
  ~CountedThread();

 private:
  const void *rank_;
};

}  // namespace soft_cuda
