// SPDX-License-Identifier: Apache-2.0
// This file lists the implementations of reduction.h on x86-64, the fastest first.
#include <cpuid.h>

#include <array>

#include "src/engine/reduction/targets.h"

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

}  // namespace rondo
