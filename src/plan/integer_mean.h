// SPDX-License-Identifier: Apache-2.0
// The plan of a mean of integers is a sum, in place, of the words that src/proto/integer_mean.h describes. The executor
// widens a rank's operands to words in a workspace, runs the plan there, and narrows the results to the caller's
// buffer.
#pragma once

#include <cstdint>

#include "src/base/result.h"
#include "src/plan/plan.h"

namespace rondo {

/// Returns whether the operation is a mean of integers over more than one rank.
[[nodiscard]] bool is_integer_mean(const Signature &signature, uint32_t rank_count);

/// Returns the number of words of an element of an integer type.
[[nodiscard]] uint32_t mean_words(rondo_type_t type);

/// Returns the operation on words that `rank` runs for a mean of integers. RONDO_ERROR_OUT_OF_RESOURCES means that the
/// words have more bytes than 64 bits can count.
[[nodiscard]] Result<OperationKey> widen(const OperationKey &called, uint32_t rank);

}  // namespace rondo
