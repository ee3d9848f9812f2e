// SPDX-License-Identifier: Apache-2.0
// These functions make the few calls of the CUDA driver that libnccl.so.2 makes itself. The first one opens the driver.
#pragma once

#include <cstddef>

#include "src/compat/abi.h"

namespace rondo::compat {

/// Writes the device that is current on the calling thread. If no device is, writes 0, as the CUDA runtime does.
ncclResult_t current_device(int *device);

// In the functions below, the device is that of a communicator, and the streams are streams of the device.

/// Writes the number of the capture that a stream is in, or 0 if the stream is not captured. Any thread.
ncclResult_t capture_of(int device, cudaStream_t stream, unsigned long long *number);

/// Records an event of the device on a stream. Any thread.
ncclResult_t record(int device, cudaEvent_t event, cudaStream_t stream);

/// Makes the later work of `behind` wait for the present work of `before`. Any thread.
ncclResult_t follow(int device, cudaStream_t before, cudaStream_t behind);

}  // namespace rondo::compat
