// SPDX-License-Identifier: Apache-2.0
// The implementations of combine.h on x86-64, the fastest first.
#include <array>

#include <hwy/targets.h>
#include "src/engine/combine_targets.h"

namespace rondo {

CombineFunction combine_function_avx2(rondo_type_t type, rondo_op_t op);
CombineFunction combine_function_avx512(rondo_type_t type, rondo_op_t op);
CombineFunction combine_function_avx512_bf16(rondo_type_t type, rondo_op_t op);

std::span<const CombineTarget> combine_targets() {
  static constexpr std::array targets{
      CombineTarget{"avx512_bf16",
                    [] { return (hwy::SupportedTargets() & HWY_AVX3) != 0 && __builtin_cpu_supports("avx512bf16"); },
                    combine_function_avx512_bf16},
      CombineTarget{"avx512", [] { return (hwy::SupportedTargets() & HWY_AVX3) != 0; }, combine_function_avx512},
      CombineTarget{"avx2", [] { return (hwy::SupportedTargets() & HWY_AVX2) != 0; }, combine_function_avx2},
      CombineTarget{"plain", [] { return true; }, combine_function_plain}};
  return targets;
}

}  // namespace rondo
