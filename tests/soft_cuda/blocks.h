// SPDX-License-Identifier: Apache-2.0
// This file runs launches: blocks on host threads or fibers. A limited number is resident on a device, and none is
// preempted.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "tests/soft_cuda/soft_kernel.h"

namespace soft_cuda {

/// The places for blocks, or for kernels, of one device. Callers get places in the order of arrival.
class Places {
 public:
  explicit Places(uint32_t count) : free_(count), count_(count) {}
  void acquire();
  [[nodiscard]] bool try_acquire();  ///< does not wait
  void release();
  [[nodiscard]] uint32_t count() const { return count_; }
  /// Returns how many calls of acquire() are waiting.
  [[nodiscard]] uint64_t waiting();
  /// Blocks in these places that have waited for others at least once. Relaxed, because the count orders nothing.
  std::atomic<uint32_t> waiting_blocks{0};

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint32_t free_;
  const uint32_t count_;
  uint64_t next_ticket_ = 0;
  uint64_t serving_ = 0;
};

struct Launch {
  KernelFunction function = nullptr;
  std::vector<std::byte> parameters;  ///< copied at the call of the launch
  uint32_t grid_size = 1;
  uint32_t thread_count = 1;
  uint64_t shared_bytes = 0;
  int device = 0;
  void (*find_memory)(uintptr_t address, MemoryExtent &extent) = nullptr;
};

/// Runs all blocks, and returns when the last one has ended.
void run_blocks(const Launch &launch, Places &places);

/// Runs `task` on a thread of a pool. The pool grows when needed, and keeps its threads.
void run_on_pool(void (*task)(void *argument), void *argument);

}  // namespace soft_cuda
