// SPDX-License-Identifier: Apache-2.0
// These functions make the few calls of the CUDA driver that libnccl.so.2 makes itself. The first one opens the driver.
#pragma once

#include <cstddef>

#include "src/compat/abi.h"

namespace rondo::compat {

/// Writes the device that is current on the calling thread. If no device is, writes 0, as the CUDA runtime does.
ncclResult_t current_device(int *device);

/// Writes the number of the capture that a stream is in, or 0 if the stream is not captured. Any thread.
ncclResult_t capture_of(cudaStream_t stream, unsigned long long *number);

/// Records an event on a stream of the event's device. Any thread.
ncclResult_t record(cudaEvent_t event, cudaStream_t stream);

/// Makes the later work of `behind` wait for the present work of `before`. Both are streams of the device. Any thread.
ncclResult_t follow(int device, cudaStream_t before, cudaStream_t behind);

}  // namespace rondo::compat
