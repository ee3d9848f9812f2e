// SPDX-License-Identifier: Apache-2.0
// This file declares the memory in which a rank widens integers for their mean on its device
// (src/proto/integer_mean.h). One workspace serves all calls of the communicator, because they run in order. If a plan
// needs more, the workspace is replaced by a larger one. Graphs and calls in flight may still use the old one, so it
// stays until the communicator ends.
#pragma once

#include <memory>
#include <vector>

#include "cuda/driver/kernel_set.h"
#include "cuda/kernels/mean.h"
#include "cuda/transport/shared_memory.h"
#include "src/plan/plan.h"
#include "src/proto/interpreter.h"

namespace rondo::cuda {

class MeanWorkspace {
 public:
  /// Makes the workspace large enough for a plan. If the device has virtual memory, this does not wait for the device.
  [[nodiscard]] Result<void> reserve(const PrimaryContext &context, const KernelSet &kernels, const Plan &plan);

  /// Returns `called` with the workspace instead of the caller's buffers.
  [[nodiscard]] Buffers buffers_of(const Plan &plan, const Buffers &called) const;
  /// Enqueues the widening of the send buffer. The stream's context must be current.
  [[nodiscard]] Result<void> widen(const CudaDriver &driver, const Plan &plan, const Buffers &called,
                                   CuStream stream) const;
  /// Enqueues the division of the sums into the recv buffer, if this rank has one. The stream's context must be
  /// current.
  [[nodiscard]] Result<void> narrow(const CudaDriver &driver, const Plan &plan, const Buffers &called,
                                    uint32_t rank_count, CuStream stream) const;

 private:
  [[nodiscard]] std::byte *words() const { return reinterpret_cast<std::byte *>(memory_.back()->address()); }

  std::vector<std::shared_ptr<const SharedMemory>> memory_;  ///< the last one is in use
  uint64_t bytes_ = 0;                                       ///< size of the last one
  LoadedKernel widen_, narrow_;
};

}  // namespace rondo::cuda
