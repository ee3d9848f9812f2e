// SPDX-License-Identifier: Apache-2.0
// This list is for processors without a vectorised implementation of reduction.h: it has plain C++ only.
#include <array>

#include "src/engine/reduction/targets.h"

namespace rondo {

std::span<const ReductionTarget> reduce_targets() {
  static constexpr std::array targets{ReductionTarget{"plain", [] { return true; }, reduce_function_plain}};
  return targets;
}

}  // namespace rondo
