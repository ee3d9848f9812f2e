// SPDX-License-Identifier: Apache-2.0
// The implementations of reduction.h where there is no vectorised one: plain C++ only.
#include <array>

#include "src/engine/reduction/targets.h"

namespace rondo {

std::span<const ReductionTarget> reduce_targets() {
  static constexpr std::array targets{ReductionTarget{"plain", [] { return true; }, reduce_function_plain}};
  return targets;
}

}  // namespace rondo
