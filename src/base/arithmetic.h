// SPDX-License-Identifier: Apache-2.0
// These functions compute with unsigned numbers. Some round up, and some report a result that does not fit its type.
#pragma once

#include <concepts>
#include <optional>

#include "src/base/host_device.h"

namespace rondo {

/// Returns the quotient of unsigned numbers, rounded up. If the divisor is 1, the function skips the division.
/// Divisions would take a tenth of the time of a collective on 8 bytes.
template <class Number>
[[nodiscard]] RONDO_HD constexpr Number ceil_div(Number value, Number by) {
  return by == 1 ? value : value / by + (value % by != 0 ? 1 : 0);
}

template <std::unsigned_integral T>
[[nodiscard]] constexpr std::optional<T> checked_add(T a, T b) {
  T out = 0;
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

template <std::unsigned_integral T>
[[nodiscard]] constexpr std::optional<T> checked_mul(T a, T b) {
  T out = 0;
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

/// Returns the least multiple of `to` that is not below `value`. The caller ensures that the result fits into the type.
template <std::unsigned_integral T>
[[nodiscard]] constexpr T round_up(T value, T to) {
  return ceil_div(value, to) * to;
}

}  // namespace rondo
