// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/cuda/kernels_image.h"

namespace rondo::train::cuda {

const void *kernels_image() { return nullptr; }

}  // namespace rondo::train::cuda
