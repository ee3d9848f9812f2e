// SPDX-License-Identifier: Apache-2.0
// This file declares a plan as the copy-engine executor runs it. On one node the host walks the plan in each call
// (cuda/executors/copy_walk.h). On several nodes a thread runs its lanes (cuda/executors/copy_messages.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cuda/driver/kernel_set.h"
#include "cuda/executors/stream_work.h"
#include "cuda/kernels/plan_image.h"
#include "cuda/kernels/reduction.h"
#include "src/engine/executor.h"

namespace rondo::cuda {

/// The reduction of a plan's slices.
struct CopyReduction {
  LoadedKernel kernel;  ///< null if the plan only moves data, or is a barrier
  ReduceOp op = ReduceOp::sum;

  /// Enqueues the reduction of a slice of `bytes`. The caller has filled in the operands.
  [[nodiscard]] Result<void> launch(const CudaDriver &driver, device::ReductionOperation operation, uint64_t bytes,
                                    CuStream stream) const {
    constexpr uint32_t threads = 256, blocks_max = 16;  // few blocks, because other kernels compute meanwhile
    constexpr uint64_t block_bytes = uint64_t{threads} * 64;
    operation.op = op;
    const auto blocks = static_cast<uint32_t>(std::min<uint64_t>((bytes - 1) / block_bytes + 1, blocks_max));
    return launch_kernel(driver, kernel, {blocks, threads, 0}, &operation, stream, "launching a reducing kernel");
  }

  /// Enqueues what the interpreter does with a slice of `bytes`. If there is something to reduce, reduces the operands
  /// into the first output. Then copies to the other outputs.
  [[nodiscard]] Result<void> enqueue_slice(const StreamWork &work, const device::GroupArgs &args,
                                           uint64_t bytes) const {
    const std::byte *from = args.inputs[0];
    if (kernel.function != nullptr && (args.input_count > 1 || args.divisor != 0)) {
      device::ReductionOperation operation;
      std::copy_n(args.inputs, args.input_count, operation.inputs);
      operation.input_count = args.input_count;
      operation.output = args.outputs[0];
      operation.count = args.count;
      operation.divisor = args.divisor;
      operation.mean_shifts = args.mean_shifts;
      RONDO_TRY(launch(*work.driver, operation, bytes, work.stream));
      from = args.outputs[0];
    }
    for (uint32_t output = 0; output < args.output_count; ++output)
      if (args.outputs[output] != from)
        RONDO_TRY(work.copy(reinterpret_cast<DevicePointer>(args.outputs[output]),
                            reinterpret_cast<DevicePointer>(from), bytes, "cuMemcpyAsync of a slice"));
    return {};
  }
};

/// The lanes of a plan for a thread. They have memory of their own, so a thread that has not noticed a failure yet can
/// use them without the plan.
class CopyLanes {
 public:
  /// Makes the lanes. `ends_of` is as in device::make_plan_image(), with addresses of the host.
  [[nodiscard]] static Result<std::shared_ptr<const CopyLanes>> make(
      const Plan &plan, const std::function<uint64_t(uint32_t, uint32_t)> &ends_of) {
    auto made = std::make_shared<CopyLanes>();
    made->memory_.resize(device::plan_image_bytes(plan) / sizeof(Line) + 1);
    auto *const memory = reinterpret_cast<std::byte *>(made->memory_.data());
    RONDO_TRY_ASSIGN(const auto image, device::make_plan_image(plan, reinterpret_cast<uint64_t>(memory), ends_of));
    std::copy(image.bytes.begin(), image.bytes.end(), memory);
    made->channel_count_ = image.channel_count;
    return std::shared_ptr<const CopyLanes>(std::move(made));
  }
  [[nodiscard]] std::span<const device::DeviceChannel> channels() const {
    return {reinterpret_cast<const device::DeviceChannel *>(memory_.data()), channel_count_};
  }

 private:
  struct alignas(16) Line {
    std::byte bytes[16];
  };
  std::vector<Line> memory_;
  uint32_t channel_count_ = 0;
};

struct CopyPlan final : PreparedPlan {
  const Plan *plan = nullptr;
  CopyReduction reduction;
  std::shared_ptr<const CopyLanes> lanes;  ///< null on one node
};

}  // namespace rondo::cuda
