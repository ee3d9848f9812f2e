// SPDX-License-Identifier: Apache-2.0
// The trainer's kernels (kernels/list.h) compiled for devices.
#pragma once

namespace rondo::train::cuda {

/// Returns a fat binary for cuLibraryLoadData(); null if this was built without a CUDA compiler.
[[nodiscard]] const void *kernels_image();

}  // namespace rondo::train::cuda
