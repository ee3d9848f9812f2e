// SPDX-License-Identifier: Apache-2.0
// This file is the vectorised reduction, compiled for AVX-512. Highway sets the compiler's target only around its own
// code and ours. So no other code here, such as inline functions of the standard library, is compiled for that
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
