// SPDX-License-Identifier: Apache-2.0
// What a combine must give, computed by other means: 128-bit integers, and doubles rounded to float after each
// operation (for + * / that is the correctly rounded float result: 53 >= 2 * 24 + 2 bits).
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

#include "tests/unit/combine_numbers.h"

namespace combine_test {

/// An element in the low bytes.
using Bits = uint64_t;

template <class T>
T element(Bits bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <class T>
Bits bits(T value) {
  Bits out = 0;
  std::memcpy(&out, &value, sizeof value);
  return out;
}

template <class Float>
Float extreme(Float a, Float b, bool largest) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Float>::quiet_NaN();
  const bool a_first = a < b || (a == b && std::signbit(a) && !std::signbit(b));
  return a_first != largest ? a : b;
}

template <class Float>
Float fold(Float a, Float b, rondo_op_t op) {
  switch (op) {
    case RONDO_SUM:
    case RONDO_AVG: return a + b;
    case RONDO_PROD: return a * b;
    default: return extreme(a, b, op == RONDO_MAX);
  }
}

/// Folds in float, each operation computed in double.
inline float fold_floats(std::span<const double> operands, rondo_op_t op, uint32_t divisor) {
  double folded = operands[0];
  for (const double operand : operands.subspan(1)) folded = static_cast<float>(fold<double>(folded, operand, op));
  if (divisor != 0) folded = static_cast<float>(folded / static_cast<double>(static_cast<float>(divisor)));
  return static_cast<float>(folded);
}

template <class T>
Bits combine_integers(std::span<const Bits> operands, rondo_op_t op, uint32_t divisor) {
  using Wide = __int128;
  T folded = element<T>(operands[0]);
  for (const Bits operand : operands.subspan(1)) {
    const T other = element<T>(operand);
    Wide wide = 0;
    if (op == RONDO_SUM || op == RONDO_AVG) wide = Wide{folded} + other;
    else if (op == RONDO_MIN) wide = std::min(folded, other);
    else if (op == RONDO_MAX) wide = std::max(folded, other);
    else if constexpr (sizeof(T) < 8) wide = Wide{folded} * other;
    else wide = static_cast<Wide>(static_cast<unsigned __int128>(folded) * static_cast<unsigned __int128>(other));
    const Bits low = static_cast<Bits>(static_cast<unsigned __int128>(wide));
    folded = element<T>(low);
  }
  if (divisor != 0) folded = static_cast<T>(Wide{folded} / Wide{divisor});
  return bits(folded);
}

/// The element that a combine must write.
inline Bits combine_reference(rondo_type_t type, rondo_op_t op, std::span<const Bits> operands, uint32_t divisor) {
  switch (type) {
    case RONDO_INT8: return combine_integers<int8_t>(operands, op, divisor);
    case RONDO_UINT8: return combine_integers<uint8_t>(operands, op, divisor);
    case RONDO_INT32: return combine_integers<int32_t>(operands, op, divisor);
    case RONDO_UINT32: return combine_integers<uint32_t>(operands, op, divisor);
    case RONDO_INT64: return combine_integers<int64_t>(operands, op, divisor);
    case RONDO_UINT64: return combine_integers<uint64_t>(operands, op, divisor);
    default: break;
  }
  if (type == RONDO_FLOAT64) {
    double folded = element<double>(operands[0]);
    for (const Bits operand : operands.subspan(1)) folded = fold(folded, element<double>(operand), op);
    return bits(divisor != 0 ? folded / divisor : folded);
  }
  const NumberTable *table = number_table(type);  // null: float32
  std::vector<double> values;
  for (const Bits operand : operands) {
    const auto code = static_cast<uint32_t>(operand);
    values.push_back(table != nullptr ? table->decode(code) : element<float>(operand));
  }
  const float folded = fold_floats(values, op, divisor);
  return table != nullptr ? table->encode(folded) : bits(folded);
}

inline bool is_nan(rondo_type_t type, Bits value) {
  if (type == RONDO_FLOAT32) return std::isnan(element<float>(value));
  if (type == RONDO_FLOAT64) return std::isnan(element<double>(value));
  const NumberTable *table = number_table(type);
  return table != nullptr && table->format().is_nan(static_cast<uint32_t>(value));
}

/// Equal bit by bit, except that all NaNs are one.
inline bool same_element(rondo_type_t type, Bits a, Bits b) {
  return a == b || (is_nan(type, a) && is_nan(type, b));
}

}  // namespace combine_test
