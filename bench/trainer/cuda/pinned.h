// SPDX-License-Identifier: Apache-2.0
// This file gives containers of the standard library pinned host memory, from which a device copies directly. If no
// more memory can be pinned, they get ordinary memory, from which copies are slower.
#pragma once

#include <memory_resource>
#include <unordered_set>

#include "bench/trainer/cuda/device.h"

namespace rondo::train {

/// Pinned memory. One thread makes and uses this object; other threads may use the allocated memory.
class PinnedMemory final : public std::pmr::memory_resource {
 public:
  explicit PinnedMemory(Device &device) : device_(device) {}

  [[nodiscard]] size_t pinned_count() const { return pinned_.size(); }

 private:
  void *do_allocate(size_t bytes, size_t alignment) override {
    void *memory = nullptr;
    if (device_.allocate_pinned(bytes, memory)) return std::pmr::new_delete_resource()->allocate(bytes, alignment);
    pinned_.insert(memory);
    return memory;
  }
  void do_deallocate(void *memory, size_t bytes, size_t alignment) override {
    if (pinned_.erase(memory) != 0) return device_.release_pinned(memory);
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
  }
  [[nodiscard]] bool do_is_equal(const memory_resource &other) const noexcept override { return this == &other; }

  Device &device_;
  std::unordered_set<void *> pinned_;
};

}  // namespace rondo::train
