// SPDX-License-Identifier: Apache-2.0
// This file defines the element types a second time, for tests, in another way than src/proto/convert.h. A format is
// the sorted list of its values as doubles, and rounding is a search in the list.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "rondo/rondo.h"
#include "tests/seeds.h"

namespace reduction_test {

using rondo_test::seed_from_environment;

struct NumberFormat {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;

  int bits() const { return 1 + exponent_bits + mantissa_bits; }
  uint32_t sign_bit() const { return 1u << (bits() - 1); }
  /// Returns the code of the largest finite magnitude.
  uint32_t largest() const { return has_infinity ? infinity() - 1 : sign_bit() - 2; }
  uint32_t infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }
  bool is_nan(uint32_t code) const {
    const uint32_t magnitude = code & (sign_bit() - 1);
    return magnitude > (has_infinity ? infinity() : largest());
  }
};

inline constexpr NumberFormat float16_format{5, 10, true};
inline constexpr NumberFormat bfloat16_format{8, 7, true};
inline constexpr NumberFormat e4m3_format{4, 3, false};
inline constexpr NumberFormat e5m2_format{5, 2, true};

/// Returns the value of a magnitude's code by the formula of the standard. `code` may be one above the largest. Then
/// the result is the value that would follow if exponents continued, which rounding near the end needs.
inline double magnitude_value(const NumberFormat &format, uint32_t code) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(code >> format.mantissa_bits);
  const double fraction = std::ldexp(code & ((1u << format.mantissa_bits) - 1), -format.mantissa_bits);
  return exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
}

class NumberTable {
 public:
  explicit NumberTable(const NumberFormat &format) : format_(format) {
    for (uint32_t code = 0; code <= format.largest() + 1; ++code) values_.push_back(magnitude_value(format, code));
  }

  const NumberFormat &format() const { return format_; }
  /// Returns the magnitudes by code, and the value that would follow the largest one.
  const std::vector<double> &values() const { return values_; }

  double decode(uint32_t code) const {
    const uint32_t magnitude = code & (format_.sign_bit() - 1);
    const bool negative = (code & format_.sign_bit()) != 0;
    if (format_.is_nan(code)) return std::numeric_limits<double>::quiet_NaN();
    const double value =
        magnitude > format_.largest() ? std::numeric_limits<double>::infinity() : values_[magnitude];
    return negative ? -value : value;
  }

  /// Rounds to nearest, ties to even. NaN becomes any NaN of the format.
  uint32_t encode(double value) const {
    if (std::isnan(value)) return format_.sign_bit() - 1;
    const uint32_t sign = std::signbit(value) ? format_.sign_bit() : 0;
    const double magnitude = std::fabs(value);
    const uint32_t too_large = format_.largest() + 1;  // the code of infinity, or of NaN if there is no infinity
    if (magnitude >= values_.back()) return sign | too_large;
    const auto above = std::upper_bound(values_.begin(), values_.end(), magnitude);
    const auto low = static_cast<uint32_t>(above - values_.begin() - 1);
    const double below_by = magnitude - values_[low];  // exact, as are the values
    const double above_by = values_[low + 1] - magnitude;
    const bool up = above_by < below_by || (above_by == below_by && low % 2 == 1);
    return sign | (up ? low + 1 : low);
  }

 private:
  NumberFormat format_;
  std::vector<double> values_;
};

/// Returns the table of a small float type, or null for other types.
inline const NumberTable *number_table(rondo_type_t type) {
  static const NumberTable float16(float16_format), bfloat16(bfloat16_format), e4m3(e4m3_format), e5m2(e5m2_format);
  switch (type) {
    case RONDO_FLOAT16: return &float16;
    case RONDO_BFLOAT16: return &bfloat16;
    case RONDO_FLOAT8_E4M3: return &e4m3;
    case RONDO_FLOAT8_E5M2: return &e5m2;
    default: return nullptr;
  }
}

}  // namespace reduction_test
