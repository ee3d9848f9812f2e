// SPDX-License-Identifier: Apache-2.0
// RONDO_HD marks a function for the host and, under nvcc, for the device too. RONDO_UNROLL and RONDO_KEEP_LOOP precede
// a loop. On a device, arrays stay in registers only if their indices are constants, so RONDO_UNROLL unrolls loops over
// them. RONDO_KEEP_LOOP keeps a long loop, whose copies would fill the instruction cache. Host compilers decide alone.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define RONDO_HD __host__ __device__
#define RONDO_UNROLL _Pragma("unroll")
#define RONDO_KEEP_LOOP _Pragma("unroll 1")
#else
#define RONDO_HD
#define RONDO_UNROLL
#define RONDO_KEEP_LOOP
#endif

namespace rondo {

/// Returns the logarithm of a power of two.
[[nodiscard]] RONDO_HD constexpr uint32_t log2_of(uint32_t power) {
#if defined(__CUDA_ARCH__)
  return static_cast<uint32_t>(31 - __clz(static_cast<int>(power)));
#else
  return static_cast<uint32_t>(__builtin_ctz(power));
#endif
}

}  // namespace rondo
