// SPDX-License-Identifier: Apache-2.0
// This file records which of the caller's buffers peers can read in place, and by which method. These buffers are
// allocations of rondo_mem_alloc() and buffers registered with the communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "src/base/result.h"
#include "src/engine/operations.h"
#include "src/memory/region.h"

namespace rondo {

/// A buffer that is registered with a communicator. The user's handle refers to this object.
class Registration {
 public:
  const std::byte *first = nullptr;
  uint64_t bytes = 0;
  std::optional<MovedPages> moved;  ///< empty if peers read the buffer by cross-memory attach
  void *handle = nullptr;           ///< handle that the user holds
};

/// The registrations of one communicator. Any thread may use this object.
class RegistrationCache final : public MemoryExporter {
 public:
  /// Makes an empty cache. `exported` is the value of ExecutorCapabilities::exports_memory.
  RegistrationCache(RegionTable &regions, bool exported) : regions_(regions), exported_(exported) {}

  Result<std::shared_ptr<Registration>> add(void *pointer, size_t bytes, bool move);
  /// Checks that `registration` belongs to this communicator. If not, returns RONDO_ERROR_INVALID_ARGUMENT.
  [[nodiscard]] Result<void> check(const Registration *registration) const;
  /// Removes a registration. It fails as check() does.
  Result<void> remove(const Registration *registration);
  /// Removes all registrations and returns them.
  [[nodiscard]] std::vector<std::shared_ptr<Registration>> clear();

  /// Returns how peers may read [first, first + bytes).
  [[nodiscard]] MemoryHandle find(const std::byte *first, size_t bytes) const override;

 private:
  RegionTable &regions_;
  [[nodiscard]] Result<size_t> index_of(const Registration *registration) const;

  const bool exported_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Registration>> registrations_;
};

}  // namespace rondo
