// SPDX-License-Identifier: Apache-2.0
// A mean of integers on host memory: the workspace of words that its plan adds (src/proto/integer_mean.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "src/engine/executor.h"
#include "src/plan/plan.h"

namespace rondo {

/// The words of one call. It is allocated for that call alone, so a plan in the cache holds no memory.
class MeanWorkspace {
 public:
  /// Widens the operands of `work`, whose plan is a widened one. Throws std::bad_alloc.
  explicit MeanWorkspace(const WorkItem &work);

  /// Returns the words of the send buffer.
  [[nodiscard]] std::byte *send() const { return words_.get(); }
  /// Returns the words of the recv buffer, which are some of the send buffer's, or all.
  [[nodiscard]] std::byte *recv() const { return words_.get() + recv_offset_; }

  /// Divides the sums by the number of ranks and writes them to the caller's buffer, if this rank has one.
  void narrow(const WorkItem &work, uint32_t rank_count) const;

 private:
  uint64_t recv_offset_ = 0;
  std::unique_ptr<std::byte[]> words_;
};

}  // namespace rondo
