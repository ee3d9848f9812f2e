// SPDX-License-Identifier: Apache-2.0
// This file has the element types, and operations on one element, for host and device. docs/numerics.md has the rules.
//
// A step loads its operands into the accumulator type, reduces them from the left, and stores the result. Storing
// rounds once:
//     Element<T>::store(op(op(load(a), load(b)), load(c)))
// A mean of floats scales each operand (src/proto/mean.h), and its last step divides before it stores.
#pragma once

#include <cstdint>
#include <type_traits>

#include "src/base/host_device.h"
#include "src/proto/convert.h"
#include "src/proto/mean.h"

namespace rondo {

/// The type of an element in memory, and the type in which it is computed. By default both are the same.
template <class T>
struct Element {
  using Storage = T;
  using Accumulator = T;
  [[nodiscard]] RONDO_HD static constexpr Accumulator load(Storage value) { return value; }
  [[nodiscard]] RONDO_HD static constexpr Storage store(Accumulator value) { return value; }
};

/// A small float. Its sums and products are computed in float32.
template <class StorageType, class Format>
struct SmallFloatElement {
  using Storage = StorageType;
  using Accumulator = float;
  [[nodiscard]] RONDO_HD static constexpr float load(Storage bits) { return Format::to_float(bits); }
  [[nodiscard]] RONDO_HD static constexpr Storage store(float value) {
    return static_cast<Storage>(Format::from_float(value));
  }
  /// Returns the largest finite number.
  [[nodiscard]] RONDO_HD static constexpr float largest() { return Format::to_float(Format::overflow_bits - 1); }
};

using Float16Element = SmallFloatElement<uint16_t, Float16Format>;
using Bfloat16Element = SmallFloatElement<uint16_t, Bfloat16Format>;
using Float8E4m3Element = SmallFloatElement<uint8_t, Float8E4m3Format>;
using Float8E5m2Element = SmallFloatElement<uint8_t, Float8E5m2Format>;

/// The type in which sums and products are computed. For integers it is unsigned, so that it wraps. It is at least as
/// wide as unsigned int, so that no product is promoted to int, whose overflow is undefined.
template <class T>
using WorkType = std::conditional_t<!std::is_integral_v<T>, T,
                                    std::conditional_t<sizeof(T) <= 4, uint32_t, uint64_t>>;

/// An operation that is chosen at run time. Its value is that of rondo_op_t. An avg is a sum with a divisor.
enum class ReduceOp : uint32_t { sum = 0, prod = 1, min = 2, max = 3 };

struct SumOp {
  template <class T>
  [[nodiscard]] RONDO_HD static constexpr T apply(T a, T b) {
    using Work = WorkType<T>;
    return static_cast<T>(static_cast<Work>(a) + static_cast<Work>(b));
  }
};

struct ProdOp {
  template <class T>
  [[nodiscard]] RONDO_HD static constexpr T apply(T a, T b) {
    using Work = WorkType<T>;
    return static_cast<T>(static_cast<Work>(a) * static_cast<Work>(b));
  }
};

/// Returns whether the sign bit is set, as it is in -0.
[[nodiscard]] RONDO_HD constexpr bool is_negative(float value) {
  return (__builtin_bit_cast(uint32_t, value) >> 31) != 0;
}
[[nodiscard]] RONDO_HD constexpr bool is_negative(double value) {
  return (__builtin_bit_cast(uint64_t, value) >> 63) != 0;
}

/// IEEE 754-2019 minimum: NaN if an operand is, -0 below +0.
struct MinOp {
  template <class T>
  [[nodiscard]] RONDO_HD static constexpr T apply(T a, T b) {
    if constexpr (!std::is_integral_v<T>) {
      if (a != a || b != b) return a + b;
      if (a == b) return is_negative(a) ? a : b;
    }
    return a < b ? a : b;
  }
};

/// IEEE 754-2019 maximum.
struct MaxOp {
  template <class T>
  [[nodiscard]] RONDO_HD static constexpr T apply(T a, T b) {
    if constexpr (!std::is_integral_v<T>) {
      if (a != a || b != b) return a + b;
      if (a == b) return is_negative(a) ? b : a;
    }
    return a < b ? b : a;
  }
};

/// Is true if Op scales the operands of a mean in this accumulator. `SumOp` is also the operation of avg.
template <class Op, class Accumulator>
inline constexpr bool scales_mean = std::is_same_v<Op, SumOp> && !std::is_integral_v<Accumulator>;

/// Returns the value to store for a mean. In 8-bit floats, rounding of partial sums can push a finite sum past the
/// largest number. The largest number is then stored. Sums of wider types cannot exceed it in this way.
template <class Element>
[[nodiscard]] RONDO_HD constexpr typename Element::Accumulator saturated_mean(typename Element::Accumulator value) {
  if constexpr (sizeof(typename Element::Storage) == 1 && !std::is_integral_v<typename Element::Accumulator>) {
    constexpr float largest = Element::largest(), finite = std::numeric_limits<float>::max();
    if (value > largest && value <= finite) return largest;
    if (value < -largest && value >= -finite) return -largest;
  }
  return value;
}

/// Does the last step of avg. Floats are divided with one correct rounding. The wrapped sum of integers is divided in
/// 64 bits, because the divisor may not fit their type. The quotient is truncated toward zero.
template <class T>
[[nodiscard]] RONDO_HD constexpr T divide(T value, uint32_t divisor) {
  using Integer = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  using Work = std::conditional_t<std::is_integral_v<T>, Integer, T>;
  return static_cast<T>(static_cast<Work>(value) / static_cast<Work>(divisor));
}

}  // namespace rondo
