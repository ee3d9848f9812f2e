// SPDX-License-Identifier: Apache-2.0
// These functions do arithmetic that reports a result which does not fit its type. round_up() rounds to a multiple.
#pragma once

#include <concepts>
#include <optional>

#include "src/base/ceil_div.h"

namespace rondo {

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

/// Returns the least multiple of `to` that is not below `value`. The caller knows that it fits.
template <std::unsigned_integral T>
[[nodiscard]] constexpr T round_up(T value, T to) {
  return ceil_div(value, to) * to;
}

}  // namespace rondo
