// SPDX-License-Identifier: Apache-2.0
// This file divides and rounds up, on host and device.
#pragma once

#include "src/base/host_device.h"

namespace rondo {

/// Returns the quotient of unsigned numbers, rounded up. It does not divide by 1, because otherwise a call of 8 bytes
/// would spend a tenth of its time on divisions.
template <class Number>
[[nodiscard]] RONDO_HD constexpr Number ceil_div(Number value, Number by) {
  return by == 1 ? value : value / by + (value % by != 0 ? 1 : 0);
}

}  // namespace rondo
