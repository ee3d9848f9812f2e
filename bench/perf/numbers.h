// SPDX-License-Identifier: Apache-2.0
// This file describes element types for the verification: what a type represents exactly, and the bits of a number in
// that type.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rondo/rondo.h"

namespace rondo::perf {

struct TypeFacts {
  bool integer = false;
  bool negative = true;        ///< whether the type has negative numbers
  unsigned bits = 0;           ///< size of an element
  unsigned exponent_bits = 0;  ///< floats only
  unsigned mantissa_bits = 0;  ///< floats only: stored bits
  uint64_t exact_max = 0;      ///< every integer from 0 to this one is exact (at most 2^62)
};

[[nodiscard]] TypeFacts facts_of(rondo_type_t type);

/// Returns the bits of `value` in a float type, rounded to nearest, ties to even. The value must not overflow.
[[nodiscard]] uint64_t float_bits(const TypeFacts &facts, double value);

/// Returns the low `bits` of `value`, as for integers that wrap.
[[nodiscard]] constexpr uint64_t wrap_bits(uint64_t value, unsigned bits) {
  return bits >= 64 ? value : value & ((uint64_t{1} << bits) - 1);
}

/// Returns the low `bits` bits of `value` as a signed number.
[[nodiscard]] constexpr int64_t signed_value(uint64_t value, unsigned bits) {
  return static_cast<int64_t>(value << (64 - bits)) >> (64 - bits);
}

/// Returns 64 well-mixed bits for 64 bits. Different arguments have different results.
[[nodiscard]] constexpr uint64_t mix(uint64_t value) {
  value ^= value >> 32;
  value *= 0xd6e8feb86659fd93u;
  value ^= value >> 32;
  value *= 0xd6e8feb86659fd93u;
  return value ^ (value >> 32);
}

/// A small generator of random numbers, equal on all ranks for equal seeds.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(mix(seed)) {}

  uint64_t bits() { return mix(state_ += 0x9e3779b97f4a7c15u); }
  /// Draws from 0..limit-1; limit is at least 1 and small against 2^64.
  uint64_t below(uint64_t limit) { return bits() % limit; }
  /// Draws from lowest..highest.
  int64_t between(int64_t lowest, int64_t highest) {
    // This uses unsigned arithmetic, because the distance may exceed an int64_t.
    const uint64_t distance = static_cast<uint64_t>(highest) - static_cast<uint64_t>(lowest);
    return static_cast<int64_t>(static_cast<uint64_t>(lowest) + below(distance + 1));
  }

 private:
  uint64_t state_;
};

}  // namespace rondo::perf
