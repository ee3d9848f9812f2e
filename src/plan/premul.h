// SPDX-License-Identifier: Apache-2.0
// The plan of a premul sum: an ordinary sum, whose operands the executor scales before. If the rank's recv buffer is as
// large as its send buffer, the scaled operands go there, and the sum is in place. Otherwise they go to a workspace.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/plan/plan.h"

namespace rondo {

/// The factor of one rank's elements.
struct Factor {
  const std::byte *address = nullptr;  ///< of memory on the communicator's device that has it, or null if `value` is it
  uint64_t value = 0;                  ///< an element, in the first bytes
};

/// Returns whether the operation is a premul sum.
[[nodiscard]] constexpr bool is_premul_sum(const Signature &signature) { return signature.op == premul_sum_op; }

/// Returns where `rank` puts its scaled operands.
[[nodiscard]] Scaling scaling_of(const Signature &premul, uint32_t rank, uint32_t rank_count);

/// Returns the sum that `rank` runs for a premul sum.
[[nodiscard]] OperationKey sum_of_scaled(const OperationKey &called, uint32_t rank, uint32_t rank_count);

}  // namespace rondo
