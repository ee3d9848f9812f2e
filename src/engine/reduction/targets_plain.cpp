// SPDX-License-Identifier: Apache-2.0
// This file is for processors without a vectorised implementation of reduction.h. It lists plain C++ only, and its
// stream_copy() is memcpy().
#include <array>
#include <cstring>

#include "src/engine/reduction/reduction.h"

namespace rondo {

std::span<const ReductionTarget> reduce_targets() {
  static constexpr std::array targets{ReductionTarget{"plain", [] { return true; }, reduce_function_plain}};
  return targets;
}

void stream_copy(std::byte *to, const std::byte *from, size_t bytes) { std::memcpy(to, from, bytes); }

}  // namespace rondo
