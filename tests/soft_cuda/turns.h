// SPDX-License-Identifier: Apache-2.0
// Processes that share a device without MPS take turns on it: kernels of one run at a time, for some milliseconds, and
// one that waits for another rank uses up its turn (SOFT_CUDA_TURNS).
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

/// By a thread of a kernel, where it begins and where it waits for others: returns when it is this process's turn. A
/// fiber stops all fibers of its host thread.
void await_turn();

/// The calling thread runs a kernel of that device.
void set_device_of_thread(int device);

/// Kernels of that device stop where they wait for others, until it is found again.
void lose_device(uint32_t device, bool lost);
/// That of the calling thread.
[[nodiscard]] bool device_is_lost();

}  // namespace soft_cuda
