// SPDX-License-Identifier: Apache-2.0
// A premul sum has the plan of a sum. Before the plan runs, the executor scales the operands into the recv buffer, and
// the sum is in place. A rank without a recv buffer for all its operands scales them into a workspace.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/plan/plan.h"

namespace rondo {

/// The factor of one rank's elements.
struct Factor {
  const std::byte *address = nullptr;  ///< of the factor in memory of the communicator's device; null if it is `value`
  uint64_t value = 0;                  ///< an element, in the first bytes
};

/// Returns whether the operation is a premul sum.
[[nodiscard]] constexpr bool is_premul_sum(const Signature &signature) { return signature.op == premul_sum_op; }

/// Returns where `rank` puts its scaled operands.
[[nodiscard]] Scaling scaling_of(const Signature &premul, uint32_t rank, uint32_t rank_count);

/// Returns the sum that `rank` runs for a premul sum.
[[nodiscard]] OperationKey sum_of_scaled(const OperationKey &called, uint32_t rank, uint32_t rank_count);

}  // namespace rondo
