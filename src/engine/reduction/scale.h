// SPDX-License-Identifier: Apache-2.0
// On host memory, this class scales each operand of a premul sum before the plan adds it (src/plan/premul.h). The
// products have the same bits as with RONDO_PROD, because the same functions compute them.
#pragma once

#include <cstddef>
#include <memory>

#include "src/engine/executor.h"
#include "src/engine/reduction/reduction.h"

namespace rondo {

/// If the plan puts its scaled operands into a workspace, returns memory for them, otherwise null. Throws
/// std::bad_alloc. The memory belongs to one call, so a plan in the cache holds none.
[[nodiscard]] std::unique_ptr<std::byte[]> scaled_operands_of(const Plan &plan);

/// Scales operands of one call.
class OperandScaler {
 public:
  /// Reads the factor of `work`, a premul sum.
  explicit OperandScaler(const WorkItem &work);

  /// Scales `bytes` bytes of elements at `from` and writes them to `to`, which may be `from`.
  void operator()(std::byte *to, const std::byte *from, size_t bytes) const;

 private:
  static constexpr size_t factors_bytes = 4096;  ///< of copies of the factor, which stay in the first-level cache

  size_t element_bytes_;
  ReductionFunction multiply_;
  alignas(64) std::byte factors_[factors_bytes];  ///< as many as a call needs
};

}  // namespace rondo
