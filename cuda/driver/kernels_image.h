// SPDX-License-Identifier: Apache-2.0
// This file declares the image of compiled kernels (cuda/kernels/list.h), for cuLibraryLoadData().
#pragma once

#include <cstddef>

namespace rondo::device {

struct KernelsImage {
  const void *data = nullptr;  ///< a fat binary, or null without a CUDA compiler
  size_t bytes = 0;
  const char *architectures = "";  ///< "80,90+ptx" is code for 8.0 and 9.0, and PTX of 9.0; PTX of
                                   ///< the lowest is always there
  int compiler_version = 0;        ///< 1000 * major + 10 * minor of CUDA, or 0
};

/// Returns the driver version that images of this compiler need: the first one with the same major version.
[[nodiscard]] constexpr int driver_needed_by(int compiler_version) { return compiler_version / 1000 * 1000; }
/// Returns the number of NVIDIA's first driver release with that version, such as 580 for CUDA 13.0, or 0 if it is
/// unknown.
[[nodiscard]] constexpr int driver_release_of(int driver_version) {
  if (driver_version >= 14000) return 0;
  return driver_version >= 13000 ? 580 : 535;  // 12.2 is the oldest possible
}

/// Writes where the image is. librondo.so exports it only for the command `rondo info`, which loads the library's
/// kernels. Nothing else is exported only for the command.
extern "C" [[gnu::visibility("default")]] void rondo_private_kernels_image(KernelsImage *image) noexcept;

[[nodiscard]] inline KernelsImage kernels_image() {
  KernelsImage image;
  rondo_private_kernels_image(&image);
  return image;
}

}  // namespace rondo::device
