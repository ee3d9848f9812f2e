// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver/kernel_set.h"

namespace rondo::device {

void rondo_private_kernels_image(KernelsImage *image) noexcept { *image = {}; }

}  // namespace rondo::device
