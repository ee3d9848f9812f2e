// SPDX-License-Identifier: Apache-2.0
// This file makes processes that share a device without MPS take turns on it. Only one process's kernels run at a time,
// for some milliseconds. A kernel that waits for another rank uses up its turn (SOFT_CUDA_TURNS).
#pragma once

#include <cstdint>

namespace soft_cuda {

/// Represents a kernel of this process in flight, from its launch to its end.
class KernelInFlight {
 public:
  KernelInFlight();
  ~KernelInFlight();
  KernelInFlight(const KernelInFlight &) = delete;
  KernelInFlight &operator=(const KernelInFlight &) = delete;
};

/// Waits for this process's turn. Each thread of a kernel calls it at its beginning, and where it waits for others. If
/// a fiber calls it, all fibers of its host thread stop.
void await_turn();

/// Records that the calling thread runs a kernel of that device.
void set_device_of_thread(int device);

/// Stops kernels on that device where they wait for others, until `lost` is false.
void lose_device(uint32_t device, bool lost);
/// Says whether the calling thread's device is lost.
[[nodiscard]] bool device_is_lost();

}  // namespace soft_cuda
