// SPDX-License-Identifier: Apache-2.0
// The kernels (cuda/kernels/list.h) compiled for devices, for cuLibraryLoadData().
#pragma once

#include <cstddef>

namespace rondo::device {

struct KernelsImage {
  const void *data = nullptr;  ///< a fat binary; null: built without a CUDA compiler
  size_t bytes = 0;
  const char *architectures = "";  ///< "80,90+ptx": of compute capability 8.0 and 9.0, and PTX of the latter
};

[[nodiscard]] KernelsImage kernels_image();

}  // namespace rondo::device
