// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/cuda/kernels_image.h"

// Made by bench/trainer/cuda/meson.build with bin2c.
#include <bench/trainer/cuda/train_kernels_bytes.h>

namespace rondo::train::cuda {

const void *kernels_image() { return rondo_train_kernels_image; }

}  // namespace rondo::train::cuda
