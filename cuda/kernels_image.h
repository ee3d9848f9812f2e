// SPDX-License-Identifier: Apache-2.0
// The kernels (cuda/kernels/list.h) compiled for devices, for cuLibraryLoadData().
#pragma once

#include <cstddef>

namespace rondo::device {

struct KernelsImage {
  const void *data = nullptr;  ///< a fat binary; null: built without a CUDA compiler
  size_t bytes = 0;
};

[[nodiscard]] KernelsImage kernels_image();

}  // namespace rondo::device
