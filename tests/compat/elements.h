// SPDX-License-Identifier: Apache-2.0
// This file has elements of every type of nccl.h as bits, and the results of its operations. The values are small whole
// numbers, so every result of up to four ranks is exact in every type and in any order.
#pragma once

#include <nccl.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace compat_test {

struct Format {
  size_t bytes;
  int exponent_bits;  ///< 0 means an integer
  int mantissa_bits;
  bool is_signed;
};

inline Format format_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8: return {1, 0, 0, true};
    case ncclUint8: return {1, 0, 0, false};
    case ncclInt32: return {4, 0, 0, true};
    case ncclUint32: return {4, 0, 0, false};
    case ncclInt64: return {8, 0, 0, true};
    case ncclUint64: return {8, 0, 0, false};
    case ncclFloat16: return {2, 5, 10, true};
    case ncclFloat32: return {4, 8, 23, true};
    case ncclFloat64: return {8, 11, 52, true};
    case ncclBfloat16: return {2, 8, 7, true};
    case ncclFloat8e4m3: return {1, 4, 3, true};
    default: return {1, 5, 2, true};
  }
}

/// Writes `value`, which must be exact in that type.
inline void put(ncclDataType_t type, double value, unsigned char *to) {
  const Format format = format_of(type);
  uint64_t bits = 0;
  if (format.exponent_bits == 0) {
    bits = static_cast<uint64_t>(static_cast<int64_t>(value));
  } else {
    const int bias = (1 << (format.exponent_bits - 1)) - 1;
    int exponent = 0;
    const double fraction = std::frexp(std::fabs(value), &exponent);  // in [0.5, 1)
    if (value != 0) {
      const double mantissa = std::ldexp(2 * fraction - 1, format.mantissa_bits);
      bits = static_cast<uint64_t>(exponent - 1 + bias) << format.mantissa_bits | static_cast<uint64_t>(mantissa);
    }
    if (std::signbit(value)) bits |= uint64_t{1} << (format.exponent_bits + format.mantissa_bits);
  }
  std::memcpy(to, &bits, format.bytes);  // little endian, as every device is
}

/// Returns element `i` of the data that `rank` sends: a whole number from -2 to 2, or 0 to 2 if unsigned.
inline double element(ncclDataType_t type, int rank, size_t i) {
  const uint64_t mixed = (i * 2654435761u + static_cast<uint64_t>(rank) * 40503u + 17) >> 3;
  return format_of(type).is_signed ? static_cast<double>(mixed % 5) - 2 : static_cast<double>(mixed % 3);
}

/// Returns the result of `op` for element `i` of all ranks.
inline double reduced(ncclDataType_t type, ncclRedOp_t op, int rank_count, size_t i) {
  double result = element(type, 0, i);
  for (int rank = 1; rank < rank_count; ++rank) {
    const double next = element(type, rank, i);
    if (op == ncclProd) result *= next;
    else if (op == ncclMax) result = std::fmax(result, next);
    else if (op == ncclMin) result = std::fmin(result, next);
    else result += next;
  }
  if (op == ncclAvg) result /= rank_count;
  const bool whole = format_of(type).exponent_bits == 0;
  return whole ? std::trunc(result) : result;
}

}  // namespace compat_test
