// SPDX-License-Identifier: Apache-2.0
// This file counts the memory accesses of kernels on emulated blocks (tests/soft_cuda/access_counts.h). The library of
// kernels is compiled with this policy of src/proto/memory.h. Without a counter, a thread only pays one read of a
// thread-local pointer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/proto/memory_policy.h"
#include "tests/soft_cuda/access_counts.h"
#include "tests/soft_cuda/soft_kernel.h"

namespace soft_cuda {

/// Devices whose ordinal is this number or more do not appear in soft_cuda_moved_bytes().
inline constexpr size_t counted_device_count = 8;

class Counter;
void count_access(rondo::memory::Access access, const void *at, size_t bytes);
void begin_batch();

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

namespace rondo::memory {

struct Policy : PlainPolicy {
  static thread_local constinit soft_cuda::Counter *counter;
  static void note(Access access, const void *at, size_t bytes) {
    if (counter != nullptr) soft_cuda::count_access(access, at, bytes);
  }
  static void note_batch() {
    if (counter != nullptr) soft_cuda::begin_batch();
  }
};

}  // namespace rondo::memory
