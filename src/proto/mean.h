// SPDX-License-Identifier: Apache-2.0
// This file scales the mean of floats (docs/numerics.md). A partial sum of m ranks' operands is kept multiplied by
// 2^-L(m), where L(m) = ceil(log2 m). So it is no larger than the largest operand can be. A step multiplies each
// operand by a power of two (its shift), which brings it to the level L of the result. The last step divides the sum of
// n ranks by n / 2^L(n), a number in (1/2, 1]. A shift is exact unless its product is subnormal. If all shifts are
// exact and the plain sum is finite, the result has the bits of the plain sum divided by n.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "src/base/host_device.h"

namespace rondo {

/// Returns L(ranks).
[[nodiscard]] constexpr uint32_t mean_level(uint32_t ranks) {
  return ranks <= 1 ? 0 : 32u - static_cast<uint32_t>(std::countl_zero(ranks - 1));
}

/// The shifts of a step's operands, one byte for each, the first operand's in the low byte.
using MeanShifts = uint32_t;

/// Returns the shifts of a step. `ranks` has the number of ranks in each operand's sum, for at most four operands.
[[nodiscard]] constexpr MeanShifts mean_shifts(std::span<const uint32_t> ranks) {
  uint32_t all = 0;
  for (const uint32_t of : ranks) all += of;
  MeanShifts shifts = 0;
  for (size_t index = 0; index < ranks.size(); ++index)
    shifts |= (mean_level(all) - mean_level(ranks[index])) << (8 * index);
  return shifts;
}

/// Returns the shifts of a step that sums over `ranks` ranks, if each of its operands comes from one rank alone.
[[nodiscard]] constexpr MeanShifts mean_shifts_alike(uint32_t ranks) { return mean_level(ranks) * 0x0101'0101u; }

/// The layout of a float32 or float64.
template <class Float>
struct FloatLayout {
  using Bits = std::conditional_t<sizeof(Float) == 4, uint32_t, uint64_t>;
  static constexpr int mantissa_bits = std::numeric_limits<Float>::digits - 1;
  static constexpr Bits bias = std::numeric_limits<Float>::max_exponent - 1;
  static constexpr Bits mantissa_mask = (Bits{1} << mantissa_bits) - 1;
  [[nodiscard]] RONDO_HD static constexpr Float make(Bits exponent, Bits mantissa) {
    return __builtin_bit_cast(Float, exponent << mantissa_bits | mantissa);
  }
};

/// Returns 2^-shift with the shift of operand `index`.
template <class Float>
[[nodiscard]] RONDO_HD constexpr Float mean_scale(MeanShifts shifts, uint32_t index) {
  return FloatLayout<Float>::make(FloatLayout<Float>::bias - (shifts >> (8 * index) & 0xFF), 0);
}

/// Returns ranks / 2^L(ranks), or 1 if `ranks` is 0. It is exact up to 2^24 ranks in float32.
template <class Float>
[[nodiscard]] RONDO_HD constexpr Float mean_divisor(uint32_t ranks) {
  using Layout = FloatLayout<Float>;
  const auto bits = __builtin_bit_cast(typename Layout::Bits, static_cast<Float>(ranks));
  const auto mantissa = bits & Layout::mantissa_mask;
  return Layout::make(Layout::bias - (mantissa != 0 ? 1 : 0), mantissa);
}

/// Returns 2^-L(ranks), or 1 if `ranks` is 0.
template <class Float>
[[nodiscard]] RONDO_HD constexpr Float mean_scale_of(uint32_t ranks) {
  using Layout = FloatLayout<Float>;
  if (ranks == 0) return 1;
  const auto bits = __builtin_bit_cast(typename Layout::Bits, static_cast<Float>(ranks));
  const auto level = (bits >> Layout::mantissa_bits) - Layout::bias + ((bits & Layout::mantissa_mask) != 0 ? 1 : 0);
  return Layout::make(Layout::bias - level, 0);
}

}  // namespace rondo
