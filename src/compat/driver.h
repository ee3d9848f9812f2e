// SPDX-License-Identifier: Apache-2.0
// The few calls of the CUDA driver that the library makes itself. The driver is opened by the first of them.
#pragma once

#include <cstddef>

#include "src/compat/abi.h"

namespace rondo::compat {

/// Writes the device that the calling thread has made current; device 0 where it has made none, as the CUDA runtime
/// has it.
ncclResult_t current_device(int *device);

/// Allocates memory of the current device. Any thread.
ncclResult_t allocate(void **pointer, size_t bytes);

/// Frees memory of allocate(). Any thread.
ncclResult_t release(void *pointer);

}  // namespace rondo::compat
