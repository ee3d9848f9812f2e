// SPDX-License-Identifier: Apache-2.0
// Which of the caller's buffers peers can read in place, and how: the allocations of rondo_mem_alloc(), and what was
// registered with the communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "src/base/result.h"
#include "src/proto/interpreter.h"
#include "transports/shm/region.h"

namespace rondo {

/// A buffer registered with a communicator. Its handle is this object's.
class Registration {
 public:
  const std::byte *first = nullptr;
  uint64_t bytes = 0;
  std::optional<shm::MovedPages> moved;  ///< none: read by cross-memory attach
  void *handle = nullptr;                ///< as the user holds it
};

/// What a collective fails with whose loan says `replaced`.
[[nodiscard]] Error replaced_memory(uint32_t rank, uint64_t operation);

/// Any thread.
class LoanBook {
 public:
  explicit LoanBook(shm::RegionTable &regions) : regions_(regions) {}

  Result<std::shared_ptr<Registration>> add(void *pointer, size_t bytes, bool move);
  /// RONDO_ERROR_INVALID_ARGUMENT: not a registration of this communicator.
  Result<void> remove(const Registration *registration);
  /// All of them, which are none of this communicator's any more.
  [[nodiscard]] std::vector<std::shared_ptr<Registration>> clear();

  /// Sets `loan`, which is new, to how peers may read [pointer, pointer + bytes). Not a result: a small message, which
  /// lends nothing, would wait for fresh fields to be copied.
  void offer(const void *pointer, size_t bytes, Loan &loan) const {
    if (bytes >= loan_bytes_min) loan = find(static_cast<const std::byte *>(pointer), bytes);
  }

 private:
  /// Below this a copy is cheaper than waiting for the peer to give the buffer back.
  static constexpr size_t loan_bytes_min = 8192;

  [[nodiscard]] Loan find(const std::byte *first, size_t bytes) const;

  shm::RegionTable &regions_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Registration>> registrations_;
};

}  // namespace rondo
