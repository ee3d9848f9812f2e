// SPDX-License-Identifier: Apache-2.0
// A premul sum and a mean of integers run the plan of a sum. Before it runs, the executor converts the operands.
//
// Premul sum        The operands are scaled into the recv buffer, and the sum is in place. If a rank has no recv
//                   buffer, or one that is too small, it scales its operands into a workspace.
// Mean of integers  The operands become words in a workspace (src/proto/integer_mean.h). The sum of the words is in
//                   place, and the executor narrows the results to the caller's buffer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/result.h"
#include "src/plan/plan.h"

namespace rondo {

/// The factor by which a premul sum multiplies one rank's elements.
struct Factor {
  const std::byte *address = nullptr;  ///< address of the factor on the communicator's device; null if it is `value`
  uint64_t value = 0;                  ///< the factor as an element, in the first bytes
};

/// Returns whether the operation is a premul sum.
[[nodiscard]] constexpr bool is_premul_sum(const Signature &signature) { return signature.op == premul_sum_op; }

/// Returns in which memory `rank` puts its scaled operands.
[[nodiscard]] Scaling scaling_of(const Signature &premul, uint32_t rank, uint32_t rank_count);

/// Returns the key of the plain sum that `rank` runs for a premul sum.
[[nodiscard]] OperationKey sum_of_scaled(const OperationKey &called, uint32_t rank, uint32_t rank_count);

/// Returns whether the operation is a mean of integers over more than one rank.
[[nodiscard]] bool is_integer_mean(const Signature &signature, uint32_t rank_count);

/// Returns the number of words of an element of an integer type.
[[nodiscard]] uint32_t mean_words(rondo_type_t type);

/// Returns the operation on words that `rank` runs for a mean of integers. RONDO_ERROR_OUT_OF_RESOURCES means that the
/// words have more bytes than 64 bits can count.
[[nodiscard]] Result<OperationKey> widen(const OperationKey &called, uint32_t rank);

}  // namespace rondo
