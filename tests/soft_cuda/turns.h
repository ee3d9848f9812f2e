// SPDX-License-Identifier: Apache-2.0
// Processes that share a device without MPS take turns on it: kernels of one run at a time, for some milliseconds, and
// one that waits for another rank uses up its turn (SOFT_CUDA_TURNS).
#pragma once

namespace soft_cuda {

/// A kernel of this process is in flight, from its launch to its end.
class KernelInFlight {
 public:
  KernelInFlight();
  ~KernelInFlight();
  KernelInFlight(const KernelInFlight &) = delete;
  KernelInFlight &operator=(const KernelInFlight &) = delete;
};

/// By a thread of a kernel, where it begins and where it waits: returns when it is this process's turn.
void await_turn();

}  // namespace soft_cuda
