// SPDX-License-Identifier: Apache-2.0
// This file computes results of reductions by other means: 128-bit integers, and doubles rounded to float after each
// operation. For + * / the result is the correctly rounded float, because 53 >= 2 * 24 + 2 bits.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

#include "tests/unit/reduce_numbers.h"

namespace reduction_test {

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
Float reduce(Float a, Float b, rondo_op_t op) {
  switch (op) {
    case RONDO_SUM:
    case RONDO_AVG: return a + b;
    case RONDO_PROD: return a * b;
    default: return extreme(a, b, op == RONDO_MAX);
  }
}

/// The powers of two by which a mean divides its operands. An empty span means that operands are not divided.
using Shifts = std::span<const uint32_t>;

/// Returns the least number of doublings that lead from 1 to at least `ranks`.
inline uint32_t level_of(double ranks) {
  uint32_t level = 0;
  for (double reached = 1; reached < ranks; reached *= 2) ++level;
  return level;
}

/// Reduces floats of type Float. Each operation is computed in Wide. Scaling by powers of two is rounded once.
template <class Float, class Wide>
Float reduce_floats(std::span<const Wide> operands, rondo_op_t op, uint32_t divisor, Shifts shifts) {
  const auto scaled = [&](size_t index) {
    const int shift = op == RONDO_AVG && !shifts.empty() ? static_cast<int>(shifts[index]) : 0;
    return static_cast<Wide>(static_cast<Float>(std::ldexp(operands[index], -shift)));
  };
  Wide reduced = scaled(0);
  for (size_t index = 1; index < operands.size(); ++index)
    reduced = static_cast<Float>(reduce<Wide>(reduced, scaled(index), op));
  if (divisor != 0) {
    const auto ranks = static_cast<Float>(divisor);
    reduced = static_cast<Float>(reduced / static_cast<Wide>(std::ldexp(ranks, -static_cast<int>(level_of(ranks)))));
  }
  return static_cast<Float>(reduced);
}

/// Returns a float as an element of a small type. A finite mean of 8-bit floats is limited to the largest number.
inline Bits small_element(const NumberTable &table, rondo_op_t op, float reduced) {
  const NumberFormat &format = table.format();
  const double largest = table.values()[format.largest()];
  const bool saturates = op == RONDO_AVG && format.bits() == 8 && std::isfinite(reduced);
  return table.encode(saturates ? std::clamp<double>(reduced, -largest, largest) : reduced);
}

template <class T>
Bits reduce_integers(std::span<const Bits> operands, rondo_op_t op, uint32_t divisor) {
  using Wide = __int128;
  T reduced = element<T>(operands[0]);
  for (const Bits operand : operands.subspan(1)) {
    const T other = element<T>(operand);
    Wide wide = 0;
    if (op == RONDO_SUM || op == RONDO_AVG) wide = Wide{reduced} + other;
    else if (op == RONDO_MIN) wide = std::min(reduced, other);
    else if (op == RONDO_MAX) wide = std::max(reduced, other);
    else if constexpr (sizeof(T) < 8) wide = Wide{reduced} * other;
    else wide = static_cast<Wide>(static_cast<unsigned __int128>(reduced) * static_cast<unsigned __int128>(other));
    const Bits low = static_cast<Bits>(static_cast<unsigned __int128>(wide));
    reduced = element<T>(low);
  }
  if (divisor != 0) reduced = static_cast<T>(Wide{reduced} / Wide{divisor});
  return bits(reduced);
}

template <class T>
Bits mean_of_integers(std::span<const Bits> operands) {
  __int128 sum = 0;
  for (const Bits operand : operands) sum += element<T>(operand);
  return bits(static_cast<T>(sum / static_cast<__int128>(operands.size())));
}

/// Returns the mean of one integer of each rank: the exact sum, divided and truncated toward zero.
inline Bits mean_of_integers(rondo_type_t type, std::span<const Bits> operands) {
  switch (type) {
    case RONDO_INT8: return mean_of_integers<int8_t>(operands);
    case RONDO_UINT8: return mean_of_integers<uint8_t>(operands);
    case RONDO_INT32: return mean_of_integers<int32_t>(operands);
    case RONDO_UINT32: return mean_of_integers<uint32_t>(operands);
    case RONDO_INT64: return mean_of_integers<int64_t>(operands);
    default: return mean_of_integers<uint64_t>(operands);
  }
}

/// Returns the element that a reduction must write. `divisor` and `shifts` are for a mean.
inline Bits reduction_reference(rondo_type_t type, rondo_op_t op, std::span<const Bits> operands, uint32_t divisor,
                                Shifts shifts = {}) {
  switch (type) {
    case RONDO_INT8: return reduce_integers<int8_t>(operands, op, divisor);
    case RONDO_UINT8: return reduce_integers<uint8_t>(operands, op, divisor);
    case RONDO_INT32: return reduce_integers<int32_t>(operands, op, divisor);
    case RONDO_UINT32: return reduce_integers<uint32_t>(operands, op, divisor);
    case RONDO_INT64: return reduce_integers<int64_t>(operands, op, divisor);
    case RONDO_UINT64: return reduce_integers<uint64_t>(operands, op, divisor);
    default: break;
  }
  if (type == RONDO_FLOAT64) {
    std::vector<double> doubles;
    for (const Bits operand : operands) doubles.push_back(element<double>(operand));
    return bits(reduce_floats<double, double>(doubles, op, divisor, shifts));
  }
  const NumberTable *table = number_table(type);  // null: float32
  std::vector<double> values;
  for (const Bits operand : operands) {
    const auto code = static_cast<uint32_t>(operand);
    values.push_back(table != nullptr ? table->decode(code) : element<float>(operand));
  }
  const float reduced = reduce_floats<float, double>(values, op, divisor, shifts);
  return table != nullptr ? small_element(*table, op, reduced) : bits(reduced);
}

inline bool is_nan(rondo_type_t type, Bits value) {
  if (type == RONDO_FLOAT32) return std::isnan(element<float>(value));
  if (type == RONDO_FLOAT64) return std::isnan(element<double>(value));
  const NumberTable *table = number_table(type);
  return table != nullptr && table->format().is_nan(static_cast<uint32_t>(value));
}

/// Compares bit by bit, except that all NaNs are equal.
inline bool same_element(rondo_type_t type, Bits a, Bits b) {
  return a == b || (is_nan(type, a) && is_nan(type, b));
}

}  // namespace reduction_test
