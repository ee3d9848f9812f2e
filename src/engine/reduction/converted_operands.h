// SPDX-License-Identifier: Apache-2.0
// These classes convert the operands of a call on host memory, for operations that run the plan of a sum
// (src/plan/premul.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "src/engine/executor.h"
#include "src/engine/reduction/reduction.h"
#include "src/plan/plan.h"

namespace rondo {

/// If the plan puts its scaled operands into a workspace, returns memory for them, otherwise null. Throws
/// std::bad_alloc. The memory belongs to one call, so a plan in the cache holds none.
[[nodiscard]] std::unique_ptr<std::byte[]> scaled_operands_of(const Plan &plan);

/// Scales the operands of one call by this rank's factor.
class OperandScaler {
 public:
  /// Reads the factor of `work`, a premul sum.
  explicit OperandScaler(const WorkItem &work);

  /// Scales `bytes` bytes of elements at `from` and writes them to `to`, which may be `from`.
  void operator()(std::byte *to, const std::byte *from, size_t bytes) const;

 private:
  static constexpr size_t factors_bytes = 4096;  ///< bytes of copies of the factor, which stay in the first-level cache

  size_t element_bytes_;
  ReductionFunction multiply_;
  alignas(64) std::byte factors_[factors_bytes];  ///< copies of the factor, as many as a call needs
};

/// The words of one call (src/proto/integer_mean.h). Each call allocates its own, so a cached plan holds no memory.
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
