// SPDX-License-Identifier: Apache-2.0
// This file is the vectorised reduction, compiled for AVX2. By Highway's macros, only Highway's code and ours use AVX2.
// So inline functions of the standard library are still compiled for any processor.
#include <hwy/detect_targets.h>
#undef HWY_TARGET
#define HWY_TARGET HWY_AVX2
#include "src/engine/reduction/vector.h"

namespace rondo {

ReductionFunction reduce_function_avx2(rondo_type_t type, rondo_op_t op) {
  return HWY_NAMESPACE::find_vector_function<HWY_NAMESPACE::Bfloat16Codec>(type, op);
}

}  // namespace rondo
