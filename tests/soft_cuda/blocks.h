// SPDX-License-Identifier: Apache-2.0
// This file runs the blocks of launches on host threads or fibers. A limited number of blocks is resident on a device,
// and none is preempted.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "tests/soft_cuda/soft_kernel.h"

namespace soft_cuda {

/// The part of a multiprocessor that a block takes.
struct SharedNeed {
  uint64_t block_bytes = 0;     ///< shared memory of the block
  uint64_t carveout_bytes = 0;  ///< shared memory of the multiprocessor if this block is its first one
};

/// The places for blocks, or for kernels, of one device. Callers get places in the order of their arrival. If a caller
/// does not fit, later callers wait for it, as on a real device.
class Places {
 public:
  /// Makes `count` places, of which `each` are on a multiprocessor.
  explicit Places(uint32_t count, uint32_t each = 1);
  /// Waits for a place, and returns its multiprocessor. Of those with room for the block, it has the fewest blocks.
  [[nodiscard]] uint32_t acquire(const SharedNeed &need);
  [[nodiscard]] std::optional<uint32_t> try_acquire(const SharedNeed &need);  ///< like acquire(), but does not wait
  void release(uint32_t multiprocessor, const SharedNeed &need);
  [[nodiscard]] uint32_t count() const { return count_; }
  /// Returns how many calls of acquire() are waiting.
  [[nodiscard]] uint64_t waiting();
  /// The number of blocks in these places that have waited at least once. Relaxed, because the count orders nothing.
  std::atomic<uint32_t> waiting_blocks{0};
  /// The number of polls in vain by blocks in these places. Relaxed, because the count orders nothing.
  std::atomic<uint64_t> polls{0};

 private:
  /// A multiprocessor. Its first block fixes how much of its memory is shared, until no block is left.
  struct Multiprocessor {
    uint32_t blocks = 0;
    uint64_t used_bytes = 0;
    uint64_t carveout_bytes = 0;
  };
  [[nodiscard]] std::optional<uint32_t> find(const SharedNeed &need) const;
  void take(uint32_t multiprocessor, const SharedNeed &need);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Multiprocessor> multiprocessors_;
  const uint32_t count_, each_;
  uint32_t taken_ = 0;
  uint64_t next_ticket_ = 0;
  uint64_t serving_ = 0;
};

struct Launch {
  KernelFunction function = nullptr;
  std::vector<std::byte> parameters;  ///< copied at the call of the launch
  uint32_t grid_size = 1;
  uint32_t thread_count = 1;
  uint64_t shared_bytes = 0;
  SharedNeed need;
  int device = 0;
  void (*find_memory)(uintptr_t address, MemoryExtent &extent) = nullptr;
};

/// Runs all blocks, and returns when the last one has ended.
void run_blocks(const Launch &launch, Places &places);

/// Runs `task` on a thread of a pool. The pool grows when needed, and keeps its threads.
void run_on_pool(void (*task)(void *argument), void *argument);

}  // namespace soft_cuda
