// SPDX-License-Identifier: Apache-2.0
// These functions make the few calls of the CUDA driver that libnccl.so.2 makes itself. The first one opens the driver.
#pragma once

#include <cstddef>

#include "src/compat/abi.h"

namespace rondo::compat {

/// Writes the device that is current on the calling thread. If no device is, writes 0, as the CUDA runtime does.
ncclResult_t current_device(int *device);

/// Records an event on a stream. Both are of `device`, the device of a communicator. Any thread.
ncclResult_t record(int device, cudaEvent_t event, cudaStream_t stream);

}  // namespace rondo::compat
