// SPDX-License-Identifier: Apache-2.0
// Counts the accesses of kernels on emulated blocks (src/proto/access_counts.h). The library of kernels is compiled
// with RONDO_COUNT_ACCESSES, which makes src/proto/memory.h report each access. A thread that has no counter pays one
// read of a thread-local pointer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/proto/access_counts.h"
#include "tests/soft_cuda/soft_kernel.h"

namespace soft_cuda {

/// Devices of higher ordinals are left out of rondo_moved_bytes().
inline constexpr size_t counted_device_count = 8;

/// Counts what the calling thread does in its life, where counting is on. `rank`: the same for all blocks of a rank,
/// and of no other.
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
