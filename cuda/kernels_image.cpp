// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels_image.h"

// Made by bin2c (cuda/meson.build), which leaves the length to sizeof.
#include <cuda/kernels_image_bytes.h>

namespace rondo::device {

KernelsImage kernels_image() { return {rondo_kernels_image, sizeof rondo_kernels_image}; }

}  // namespace rondo::device
