// SPDX-License-Identifier: Apache-2.0
// This class holds the operands of a rank's integer means (src/proto/integer_mean.h) and premul sums
// (src/plan/premul.h) on its device. All calls of the communicator use one workspace, one after another. It grows if a
// plan needs more. Its earlier memory stays until the communicator ends, as graphs and calls in flight may use it.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "cuda/driver/kernel_set.h"
#include "cuda/kernels/mean.h"
#include "cuda/kernels/scale.h"
#include "cuda/transport/shared_memory.h"
#include "src/engine/executor.h"
#include "src/proto/interpreter.h"

namespace rondo::cuda {

class OperandWorkspace {
 public:
  /// Makes room for the operands of a plan that needs it, and finds the kernels. If the device has virtual memory, does
  /// not wait for the device.
  [[nodiscard]] Result<void> reserve(const PrimaryContext &context, const KernelSet &kernels, const Plan &plan);

  /// Returns the buffers on which the plan works: the buffers of `called`, or the workspace in their place.
  [[nodiscard]] Buffers buffers_of(const Plan &plan, const Buffers &called) const;
  /// Enqueues the widening of the send buffer. The stream's context must be current.
  [[nodiscard]] Result<void> widen(const CudaDriver &driver, const Plan &plan, const Buffers &called,
                                   CuStream stream) const;
  /// Enqueues the scaling of the send buffer likewise.
  [[nodiscard]] Result<void> scale(const CudaDriver &driver, const Plan &plan, const Buffers &called,
                                   const Factor &factor, CuStream stream) const;
  /// Enqueues the division of the sums into the recv buffer, if this rank has one. The stream's context is current.
  [[nodiscard]] Result<void> narrow(const CudaDriver &driver, const Plan &plan, const Buffers &called,
                                    uint32_t rank_count, CuStream stream) const;

  /// Returns the size of all memory, in bytes. Any thread may call it.
  [[nodiscard]] uint64_t all_bytes() const { return all_bytes_.load(std::memory_order_relaxed); }  // a mere figure
  /// Returns the size of the memory that suspend() gives back, likewise.
  [[nodiscard]] uint64_t suspendable_bytes() const { return vmm_bytes_.load(std::memory_order_relaxed); }  // likewise
  /// Gives back all memory that can be allocated again at the same addresses. Nothing may use it until resume().
  void suspend();
  [[nodiscard]] Result<void> resume();

 private:
  [[nodiscard]] std::byte *operands() const { return reinterpret_cast<std::byte *>(memory_.back()->address()); }

  std::vector<std::shared_ptr<SharedMemory>> memory_;  ///< the last one is in use
  std::atomic<uint64_t> all_bytes_ = 0, vmm_bytes_ = 0;
  uint64_t bytes_ = 0;                                       ///< of the last one
  LoadedKernel widen_, narrow_, scale_;
};

}  // namespace rondo::cuda
