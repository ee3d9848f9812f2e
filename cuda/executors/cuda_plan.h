// SPDX-License-Identifier: Apache-2.0
// This file declares a plan as kernels run it, and the memory for such plans on a device.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "cuda/driver/handles.h"
#include "cuda/driver/kernel_set.h"
#include "cuda/executors/joint_call.h"
#include "cuda/kernels/load_store_kernels.h"
#include "cuda/transport/segment.h"
#include "src/engine/executor.h"

namespace rondo::cuda {

struct PlanRange {
  uint64_t offset = 0, bytes = 0;
};

/// Copies plans to the device on a stream of the executor, so that a captured call does not repeat the copy at each
/// replay. That stream may share a hardware queue with a kernel that waits for this rank. Then a copy ends only after
/// this rank's next call. So a wait for copies gives up after a short time.
class PlanUploads {
 public:
  /// Keeps references to its arguments, which must outlive it. `abort` is the host's abort word.
  PlanUploads(const PrimaryContext &context, const Stream &stream, const uint64_t &abort)
      : context_(context), stream_(stream), abort_(abort) {}

  /// Begins a copy. Returns whether the copy has ended already.
  [[nodiscard]] Result<bool> begin(DevicePointer to, const void *from, uint64_t bytes);
  /// Waits for the copies. Returns false if they have not ended in time, or the rank must stop.
  [[nodiscard]] Result<bool> wait(uint64_t patience_ns) const;
  [[nodiscard]] Result<bool> have_ended() const;
  /// Says whether the copies that begin() left unfinished have ended. Returns true if the device failed, because
  /// nothing runs on it.
  [[nodiscard]] bool late_ones_have_ended() const;

 private:
  const PrimaryContext &context_;
  const Stream &stream_;
  const uint64_t &abort_;
  std::atomic<bool> was_late_ = false;
};

/// The memory for plans, which exists in the segment and as a copy in host memory.
struct PlanMemory {
  std::mutex mutex;  ///< guards what follows
  uint64_t all_bytes = 0;
  Arena arena{0};
  std::vector<PlanRange> late;  ///< ranges of destroyed plans, not given back yet: a copy to them may not have ended

  /// Gives the object its memory, once.
  void give(uint64_t bytes) {
    all_bytes = bytes;
    arena = Arena(bytes);
  }
  /// Returns whether take() would find room.
  [[nodiscard]] bool has_room(size_t bytes, PlanUploads &uploads);
  /// Allocates memory for a plan, and returns its offset.
  [[nodiscard]] Result<uint64_t> take(size_t bytes, PlanUploads &uploads);

 private:
  /// Frees the late ranges if their copies have ended. `mutex` must be held.
  [[nodiscard]] Result<void> give_back_late(PlanUploads &uploads);
};

class CudaPlan final : public PreparedPlan {
 public:
  CudaPlan(PlanMemory &memory, ReduceOp operation) : op(operation), memory_(memory) {}
  CudaPlan(const CudaPlan &) = delete;
  CudaPlan &operator=(const CudaPlan &) = delete;
  ~CudaPlan() override {
    const std::lock_guard lock(memory_.mutex);
    if (bytes == 0) return;
    if (uploaded) {
      memory_.arena.give_back(offset, bytes);
    } else {
      memory_.late.push_back({offset, bytes});
    }
  }

  LoadedKernel kernel;
  uint64_t offset = 0, bytes = 0;  ///< in PlanMemory; load_store takes none
  bool uploaded = true;            ///< false: its copy, on the executor's stream, may not have ended
  uint32_t channel_count = 0, lane_count = 0, lanes_per_channel = 0;
  uint32_t scratch_bytes = 0;
  const ReduceOp op;  ///< for kernels that take it as a parameter
  bool is_load_store = false;
  device::LoadStoreOperation load_store;  ///< for load_store: everything except what differs per call
  uint64_t send_bytes = 0, recv_bytes = 0;  ///< for load_store
  uint32_t threads = 0;                   ///< for load_store: threads of a block
  JointPlan joint;                        ///< for load_store, if ranks share launches

 private:
  PlanMemory &memory_;
};

}  // namespace rondo::cuda
