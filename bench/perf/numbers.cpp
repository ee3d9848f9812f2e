// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/numbers.h"

#include <algorithm>
#include <cmath>

namespace rondo::perf {
namespace {

constexpr uint64_t exact_limit = uint64_t{1} << 62;

TypeFacts integer(unsigned bits, bool negative) {
  const unsigned value_bits = negative ? bits - 1 : bits;
  const uint64_t most = value_bits >= 62 ? exact_limit : (uint64_t{1} << value_bits) - 1;
  return {.integer = true, .negative = negative, .bits = bits, .exact_max = most};
}

TypeFacts floating(unsigned exponent_bits, unsigned mantissa_bits) {
  return {.bits = 1 + exponent_bits + mantissa_bits,
          .exponent_bits = exponent_bits,
          .mantissa_bits = mantissa_bits,
          .exact_max = uint64_t{2} << mantissa_bits};
}

}  // namespace

TypeFacts facts_of(rondo_type_t type) {
  switch (type) {
    case RONDO_INT8: return integer(8, true);
    case RONDO_UINT8: return integer(8, false);
    case RONDO_INT32: return integer(32, true);
    case RONDO_UINT32: return integer(32, false);
    case RONDO_INT64: return integer(64, true);
    case RONDO_UINT64: return integer(64, false);
    case RONDO_FLOAT16: return floating(5, 10);
    case RONDO_BFLOAT16: return floating(8, 7);
    case RONDO_FLOAT32: return floating(8, 23);
    case RONDO_FLOAT64: return floating(11, 52);
    case RONDO_FLOAT8_E4M3: return floating(4, 3);
    case RONDO_FLOAT8_E5M2: return floating(5, 2);
  }
  return {};
}

uint64_t float_bits(const TypeFacts &facts, double value) {
  const uint64_t sign = std::signbit(value) ? uint64_t{1} << (facts.bits - 1) : 0;
  if (value == 0) return sign;
  const int bias = (1 << (facts.exponent_bits - 1)) - 1;
  int exponent = 0;
  (void)std::frexp(value, &exponent);            // |value| is in [2^(exponent-1), 2^exponent)
  exponent = std::max(exponent - 1, 1 - bias);   // below the smallest normal number, all steps are equal
  const auto mantissa_bits = static_cast<int>(facts.mantissa_bits);
  // The value in units of the last place. nearbyint rounds ties to even. A carry correctly continues into the exponent.
  const auto units = static_cast<uint64_t>(std::nearbyint(std::ldexp(std::fabs(value), mantissa_bits - exponent)));
  const auto biased = static_cast<uint64_t>(exponent + bias - 1);
  return sign | ((biased << facts.mantissa_bits) + units);
}

}  // namespace rondo::perf
