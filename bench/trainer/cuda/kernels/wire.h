// SPDX-License-Identifier: Apache-2.0
// These kernels convert floats for the wire, and to factors of products. The conversions use only integers, so the bits
// are the same as in the host's conversions.
#pragma once

#include <cstring>

#include "bench/trainer/cuda/kernels/block.h"

namespace rondo::train::cuda {

RONDO_TRAIN_FUNCTION inline uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
RONDO_TRAIN_FUNCTION inline float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/// The format that changes nothing.
struct Float32 {
  using Element = float;
  RONDO_TRAIN_FUNCTION static float narrow(float value) { return value; }
  RONDO_TRAIN_FUNCTION static float widen(float element) { return element; }
};

/// A float's upper half: 1 bit for the sign, 8 for the exponent and 7 for the mantissa.
struct Bfloat16 {
  using Element = uint16_t;
  /// Rounds to nearest, ties to even; a NaN stays a NaN.
  RONDO_TRAIN_FUNCTION static uint16_t narrow(float value) {
    const uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
    return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
  }
  RONDO_TRAIN_FUNCTION static float widen(uint16_t element) { return float_of(uint32_t{element} << 16); }
};

/// A float16: 1 bit for the sign, 5 for the exponent and 10 for the mantissa.
struct Float16 {
  static constexpr uint32_t exponent_gap = 112u << 23;  ///< difference of the exponents' biases
  static constexpr uint32_t normal_min = 113u << 23;  ///< 2^-14
  static constexpr uint32_t overflow = 0x477ff000u;     ///< 65520, from which on infinity is the nearest value

  /// Rounds to nearest, ties to even. Values beyond the range become infinity.
  RONDO_TRAIN_FUNCTION static uint16_t narrow(float value) {
    const uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    uint32_t result = 0;
    if (rest > 0x7f800000u)
      result = 0x7e00u | (rest >> 13 & 0x3ffu);
    else if (rest >= overflow)
      result = 0x7c00u;
    else if (rest < normal_min)
      result = bits_of(float_of(rest) + 0.5f) - bits_of(0.5f);  // the addition rounds to multiples of 2^-24
    else
      result = (rest - exponent_gap + 0xfffu + (rest >> 13 & 1u)) >> 13;
    return static_cast<uint16_t>(sign | result);
  }
  RONDO_TRAIN_FUNCTION static float widen(uint16_t element) {
    const uint32_t sign = uint32_t{element & 0x8000u} << 16, rest = element & 0x7fffu;
    if (rest >= 0x7c00u) return float_of(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    if (rest >= 0x400u) return float_of(sign | ((rest << 13) + exponent_gap));
    return float_of(sign | bits_of(static_cast<float>(rest) * (1.0f / 16'777'216.0f)));
  }
};

template <class Format>
struct Narrow {
  const float *from;
  uint16_t *to;
  uint64_t count;
  float scale;

  template <class Block>
  RONDO_TRAIN_FUNCTION void run(const Block &block) const {
    for (uint64_t at = first_of(block); at < count; at += step_of(block)) to[at] = Format::narrow(scale * from[at]);
  }
};

template <class Format>
struct Widen {
  const uint16_t *from;
  float *to;
  uint64_t count;
  float scale;

  template <class Block>
  RONDO_TRAIN_FUNCTION void run(const Block &block) const {
    for (uint64_t at = first_of(block); at < count; at += step_of(block)) to[at] = scale * Format::widen(from[at]);
  }
};

}  // namespace rondo::train::cuda
