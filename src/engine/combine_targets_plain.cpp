// SPDX-License-Identifier: Apache-2.0
// The implementations of combine.h where there is no vectorised one: plain C++ only.
#include <array>

#include "src/engine/combine_targets.h"

namespace rondo {

std::span<const CombineTarget> combine_targets() {
  static constexpr std::array targets{CombineTarget{"plain", [] { return true; }, combine_function_plain}};
  return targets;
}

}  // namespace rondo
