// SPDX-License-Identifier: Apache-2.0
// This file is the vectorised reduction, compiled for AVX-512. By Highway's macros, only Highway's code
// and ours use AVX-512. So inline functions of the standard library are still compiled for any
// processor.
#include <hwy/detect_targets.h>
#undef HWY_TARGET
#define HWY_TARGET HWY_AVX3
#include "src/engine/reduction/vector.h"

namespace rondo {

ReductionFunction reduce_function_avx512(rondo_type_t type, rondo_op_t op) {
  return HWY_NAMESPACE::find_vector_function<HWY_NAMESPACE::Bfloat16Codec>(type, op);
}

ReductionFunction reduce_function_avx512_bf16(rondo_type_t type, rondo_op_t op) {
  return HWY_NAMESPACE::find_vector_function<HWY_NAMESPACE::Bfloat16ConvertingCodec>(type, op);
}

}  // namespace rondo
