// SPDX-License-Identifier: Apache-2.0
// Processes that share a device without MPS take turns on it. Kernels of one process run at a time, for some
// milliseconds, and one that waits for another rank uses up its turn (SOFT_CUDA_TURNS).
#pragma once

#include <cstdint>

namespace soft_cuda {

/// A kernel of this process is in flight, from its launch to its end.
class KernelInFlight {
 public:
  KernelInFlight();
  ~KernelInFlight();
  KernelInFlight(const KernelInFlight &) = delete;
  KernelInFlight &operator=(const KernelInFlight &) = delete;
};

/// Returns when it is this process's turn. A thread of a kernel calls it where it begins and where it waits for others.
/// A fiber stops all fibers of its host thread.
void await_turn();

/// Notes that the calling thread runs a kernel of that device.
void set_device_of_thread(int device);

/// Stops kernels of that device where they wait for others, until it is found again.
void lose_device(uint32_t device, bool lost);
/// Returns whether the calling thread's device is lost.
[[nodiscard]] bool device_is_lost();

}  // namespace soft_cuda
