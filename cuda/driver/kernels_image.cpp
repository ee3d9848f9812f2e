// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver/kernel_set.h"

// The build makes these headers (cuda/meson.build). bin2c writes the bytes, but not their number.
#include <cuda/kernels_architectures.h>
#include <cuda/kernels_image_bytes.h>

namespace rondo::device {

void rondo_private_kernels_image(KernelsImage *image) noexcept {
  *image = {rondo_kernels_image, sizeof rondo_kernels_image, RONDO_KERNELS_ARCHITECTURES, RONDO_KERNELS_COMPILER};
}

}  // namespace rondo::device
