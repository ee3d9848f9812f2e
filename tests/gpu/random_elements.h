// SPDX-License-Identifier: Apache-2.0
// This file makes random elements of every type, and knows which parts of a result are unspecified.
#pragma once

#include <cstdint>
#include <cstring>

#include "src/proto/reducer.h"
#include "tests/sim/random.h"

namespace rondo::test {

/// A generator for the distributions of the standard. A word takes a tenth of the time of std::mt19937_64.
class Random : public rondo::sim::Random {
 public:
  using result_type = uint64_t;
  using rondo::sim::Random::Random;
  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return UINT64_MAX; }
  uint64_t operator()() { return next(); }
};

template <class T>
[[nodiscard]] bool is_nan_at(const std::byte *at) {
  typename T::Storage bits;
  std::memcpy(&bits, at, sizeof bits);
  const auto value = T::load(bits);
  return value != value;
}

/// Says whether an element is a NaN. Its sign and payload are unspecified (docs/numerics.md).
[[nodiscard]] inline bool is_nan(rondo_type_t type, const std::byte *at) {
  switch (type) {
    case RONDO_FLOAT16:
      return is_nan_at<Float16Element>(at);
    case RONDO_BFLOAT16:
      return is_nan_at<Bfloat16Element>(at);
    case RONDO_FLOAT32:
      return is_nan_at<Element<float>>(at);
    case RONDO_FLOAT64:
      return is_nan_at<Element<double>>(at);
    case RONDO_FLOAT8_E4M3:
      return is_nan_at<Float8E4m3Element>(at);
    case RONDO_FLOAT8_E5M2:
      return is_nan_at<Float8E5m2Element>(at);
    default:
      return false;
  }
}

/// Stores a random element: usually a number of similar size, so that rounding matters, and sometimes any bits.
inline void put_random(rondo_type_t type, std::byte *at, Random &random) {
  uint64_t bits = random();
  const uint64_t drawn = random();
  const float value = (static_cast<float>((drawn >> 32) % 20'001) - 1e4f) / 3e3f;
  if (static_cast<uint32_t>(drawn) % 40 != 0) {
    switch (type) {
      case RONDO_FLOAT16:
        bits = Float16Element::store(value);
        break;
      case RONDO_BFLOAT16:
        bits = Bfloat16Element::store(value);
        break;
      case RONDO_FLOAT32:
        bits = bits_of(value);
        break;
      case RONDO_FLOAT64:
        bits = __builtin_bit_cast(uint64_t, static_cast<double>(value) / 3);
        break;
      case RONDO_FLOAT8_E4M3:
        bits = Float8E4m3Element::store(value);
        break;
      case RONDO_FLOAT8_E5M2:
        bits = Float8E5m2Element::store(value);
        break;
      default:
        break;
    }
  }
  std::memcpy(at, &bits, rondo_type_size(type));
}

}  // namespace rondo::test
