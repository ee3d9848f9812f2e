// SPDX-License-Identifier: Apache-2.0
// This file lists the implementations of reduction.h on x86-64, the fastest first. It also has this processor's
// stream_copy().
#include <cpuid.h>
#include <emmintrin.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "src/engine/reduction/reduction.h"

namespace rondo {

ReductionFunction reduce_function_avx2(rondo_type_t type, rondo_op_t op);
ReductionFunction reduce_function_avx512(rondo_type_t type, rondo_op_t op);
ReductionFunction reduce_function_avx512_bf16(rondo_type_t type, rondo_op_t op);

namespace {

// These features are the ones for which HWY_AVX2 and HWY_AVX3 compile. Highway's own check of the processor is in its
// library, which Rondo does not link.
bool has_avx2() {
  constexpr unsigned f16c = 1u << 29;  // bit of leaf 1, ecx; clang 14 has no name for it
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & f16c) != 0 && __builtin_cpu_supports("avx2") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd");
}

}  // namespace

std::span<const ReductionTarget> reduce_targets() {
  static constexpr std::array targets{
      ReductionTarget{"avx512_bf16", [] { return has_avx512() && __builtin_cpu_supports("avx512bf16"); },
                    reduce_function_avx512_bf16},
      ReductionTarget{"avx512", has_avx512, reduce_function_avx512},
      ReductionTarget{"avx2", has_avx2, reduce_function_avx2},
      ReductionTarget{"plain", [] { return true; }, reduce_function_plain}};
  return targets;
}

void stream_copy(std::byte *to, const std::byte *from, size_t bytes) {
  constexpr size_t vector_bytes = 16;
  const size_t head = std::min(bytes, bytes_to_line(to));
  std::memcpy(to, from, head);
  size_t at = head;
  for (; at + cache_line_bytes <= bytes; at += cache_line_bytes) {
    for (size_t part = 0; part < cache_line_bytes; part += vector_bytes) {
      const __m128i value = _mm_loadu_si128(reinterpret_cast<const __m128i *>(from + at + part));
      _mm_stream_si128(reinterpret_cast<__m128i *>(to + at + part), value);
    }
  }
  _mm_sfence();  // a release store does not order streaming stores
  std::memcpy(to + at, from + at, bytes - at);
}

}  // namespace rondo
