// SPDX-License-Identifier: Apache-2.0
// This class holds the words of a mean of integers on host memory. Its plan adds them (src/proto/integer_mean.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "src/engine/executor.h"
#include "src/plan/plan.h"

namespace rondo {

/// The words of one call. They are allocated for that call alone, so a plan in the cache holds no memory.
class MeanWorkspace {
 public:
  /// Converts to words the operands of `work`, which has a widened plan. Throws std::bad_alloc.
  explicit MeanWorkspace(const WorkItem &work);

  /// Returns the words of the send buffer.
  [[nodiscard]] std::byte *send() const { return words_.get(); }
  /// Returns the words of the recv buffer. They are a part of the send buffer's words, or all of them.
  [[nodiscard]] std::byte *recv() const { return words_.get() + recv_offset_; }

  /// Divides the sums by the number of ranks. If this rank has a recv buffer, writes the results to it.
  void narrow(const WorkItem &work, uint32_t rank_count) const;

 private:
  uint64_t recv_offset_ = 0;
  std::unique_ptr<std::byte[]> words_;
};

}  // namespace rondo
