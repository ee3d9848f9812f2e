// SPDX-License-Identifier: Apache-2.0
// This file keeps which of the caller's buffers peers can read in place, and how: the allocations of rondo_mem_alloc(),
// and what was registered with the communicator.
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

/// A buffer registered with a communicator. Its handle is this object's.
class Registration {
 public:
  const std::byte *first = nullptr;
  uint64_t bytes = 0;
  std::optional<MovedPages> moved;  ///< none: read by cross-memory attach
  void *handle = nullptr;           ///< as the user holds it
};

/// Any thread.
class RegistrationCache final : public MemoryExporter {
 public:
  /// @param exported  as ExecutorCapabilities::exports_memory
  RegistrationCache(RegionTable &regions, bool exported) : regions_(regions), exported_(exported) {}

  Result<std::shared_ptr<Registration>> add(void *pointer, size_t bytes, bool move);
  /// Returns RONDO_ERROR_INVALID_ARGUMENT for anything but a registration of this communicator.
  [[nodiscard]] Result<void> check(const Registration *registration) const;
  /// Removes a registration. Returns errors as check() does.
  Result<void> remove(const Registration *registration);
  /// Returns all registrations, none of which is this communicator's any more.
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
