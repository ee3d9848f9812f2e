// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels_image.h"

namespace rondo::device {

KernelsImage kernels_image() { return {}; }

}  // namespace rondo::device
