// SPDX-License-Identifier: Apache-2.0
// These functions convert small floats from and to float32: float16, bfloat16, float8 e4m3 and e5m2. They are constexpr
// integer code for host and device.
//
//     format    layout s.e.m  bias  largest   smallest > 0  infinity  NaN                    too large becomes
//     float16   1.5.10        15    65504     2^-24         yes       e all ones, m != 0     infinity
//     bfloat16  1.8.7         127   3.39e38   2^-133        yes       e all ones, m != 0     infinity
//     e5m2      1.5.2         15    57344     2^-16         yes       e all ones, m != 0     infinity
//     e4m3      1.4.3         7     448       2^-9          no        0x7f, 0xff             NaN (OCP, not saturating)
//
// Conversion to float32 is exact. Conversion from float32 rounds once, to nearest with ties to even, also to subnormal
// numbers. A NaN stays a NaN of the same sign and becomes quiet. The results do not depend on the thread's modes for
// rounding or flushing to zero.
#pragma once

#include <cstdint>

#include "src/base/host_device.h"

namespace rondo {

[[nodiscard]] RONDO_HD constexpr uint32_t bits_of(float value) { return __builtin_bit_cast(uint32_t, value); }
[[nodiscard]] RONDO_HD constexpr float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }

inline constexpr uint32_t float_infinity_bits = 0x7F800000;
inline constexpr uint32_t float_quiet_bit = 0x00400000;

/// A format with fewer exponent bits than float32. So float32 represents its subnormal numbers as normal ones.
template <int exponent_bits, int mantissa_bits, bool with_infinity>
struct SmallFloat {
  static constexpr bool has_infinity = with_infinity;
  static constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  static constexpr int drop_bits = 23 - mantissa_bits;  ///< mantissa bits that float32 has beyond this format
  static constexpr uint32_t sign_bit = 1u << (exponent_bits + mantissa_bits);
  static constexpr uint32_t mantissa_mask = (1u << mantissa_bits) - 1;
  static constexpr uint32_t exponent_max = (1u << exponent_bits) - 1;
  static constexpr uint32_t magnitude_mask = sign_bit - 1;
  /// The bits for a value above the largest number: infinity, or NaN if the format has no infinity.
  static constexpr uint32_t overflow_bits = has_infinity ? exponent_max << mantissa_bits : magnitude_mask;
  /// The float32 bits of the smallest normal number.
  static constexpr uint32_t normal_min_float_bits = static_cast<uint32_t>(127 - bias + 1) << 23;
  /// The float32 bits of the smallest subnormal number, 2^(1 - bias - mantissa_bits).
  static constexpr uint32_t unit_float_bits = static_cast<uint32_t>(127 + 1 - bias - mantissa_bits) << 23;

  [[nodiscard]] RONDO_HD static constexpr float to_float(uint32_t bits) {
    const uint32_t sign = (bits & sign_bit) != 0 ? 0x80000000u : 0;
    const uint32_t magnitude = bits & magnitude_mask;
    const uint32_t mantissa = magnitude & mantissa_mask;
    if (is_special(magnitude)) {
      const uint32_t payload = has_infinity ? mantissa << drop_bits : 0;
      const bool nan = !has_infinity || mantissa != 0;
      return float_of(sign | float_infinity_bits | payload | (nan ? float_quiet_bit : 0));
    }
    if (magnitude <= mantissa_mask) {  // zero or subnormal: an exact product of two normal numbers (or of zero)
      return float_of(sign | bits_of(static_cast<float>(mantissa) * float_of(unit_float_bits)));
    }
    return float_of(sign | ((magnitude << drop_bits) + (static_cast<uint32_t>(127 - bias) << 23)));
  }

  [[nodiscard]] RONDO_HD static constexpr uint32_t from_float(float value) {
    const uint32_t bits = bits_of(value);
    const uint32_t sign = (bits >> 31) != 0 ? sign_bit : 0;
    const uint32_t magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > float_infinity_bits) return sign | nan_bits(magnitude);
    if (magnitude < normal_min_float_bits) return sign | round_subnormal(magnitude);
    const uint32_t odd = (magnitude >> drop_bits) & 1;
    const uint32_t rounded = (magnitude + (1u << (drop_bits - 1)) - 1 + odd) >> drop_bits;
    const uint32_t rebiased = rounded - (static_cast<uint32_t>(127 - bias) << mantissa_bits);
    return sign | (rebiased < overflow_bits ? rebiased : overflow_bits);
  }

 private:
  /// Returns whether the magnitude is infinity or NaN.
  [[nodiscard]] RONDO_HD static constexpr bool is_special(uint32_t magnitude) { return magnitude >= overflow_bits; }

  [[nodiscard]] RONDO_HD static constexpr uint32_t nan_bits(uint32_t magnitude) {
    if (!has_infinity) return overflow_bits;
    const uint32_t payload = (magnitude >> drop_bits) & mantissa_mask;
    return overflow_bits | (1u << (mantissa_bits - 1)) | payload;
  }

  /// Rounds to a multiple of the smallest subnormal number. The result may be the smallest normal number, whose bits
  /// follow directly.
  [[nodiscard]] RONDO_HD static constexpr uint32_t round_subnormal(uint32_t magnitude) {
    const uint32_t exponent = magnitude >> 23;
    const uint32_t shift = static_cast<uint32_t>(151 - bias - mantissa_bits) - exponent;
    if (shift > 24) return 0;  // below half a unit, as are float32's own subnormals
    const uint32_t mantissa = (magnitude & 0x7FFFFFu) | 0x800000u;
    const uint32_t unit_count = mantissa >> shift;
    const uint32_t rest = mantissa & ((1u << shift) - 1);
    const uint32_t half = 1u << (shift - 1);
    return unit_count + ((rest > half || (rest == half && (unit_count & 1) != 0)) ? 1 : 0);
  }
};

using Float16Format = SmallFloat<5, 10, true>;
using Float8E4m3Format = SmallFloat<4, 3, false>;
using Float8E5m2Format = SmallFloat<5, 2, true>;

/// bfloat16 is the upper half of a float32. So subnormal numbers need no special code.
struct Bfloat16Format {
  [[nodiscard]] RONDO_HD static constexpr float to_float(uint32_t bits) {
    const bool nan = (bits & 0x7FFFu) > 0x7F80u;
    return float_of((bits << 16) | (nan ? float_quiet_bit : 0));
  }
  [[nodiscard]] RONDO_HD static constexpr uint32_t from_float(float value) {
    const uint32_t bits = bits_of(value);
    if ((bits & 0x7FFFFFFFu) > float_infinity_bits) return (bits | float_quiet_bit) >> 16;
    return (bits + 0x7FFFu + ((bits >> 16) & 1)) >> 16;
  }
};

}  // namespace rondo
