// SPDX-License-Identifier: Apache-2.0
// This class decides when a device that shares buffers is lost with its kernel (cuda/kernels/load_store_place.h). Only
// cuda includes this header.
#pragma once

#include <cstdint>
#include <mutex>

#include "src/engine/device_executor.h"

namespace rondo::cuda {

/// A rank is lost after this time and this many polls. They count from a failure or, if that was later, from the moment
/// when the kernel was seen. A process that was stopped finds all of the time gone at once, hence the polls.
inline constexpr uint64_t lost_patience_ns = 3'000'000'000;
inline constexpr uint64_t lost_looks = 1'000;
// Otherwise quiesce() would give up before a kernel that ran at the failure learns of the loss.
static_assert(lost_patience_ns < quiesce_patience_ns && lost_looks * stop_interval_ns < quiesce_patience_ns);

/// Decides when the peers of a kernel are lost. Any thread.
class PeerLoss {
 public:
  /// Counts a poll after a failure while `kernel` runs. Kernels that begin later, after other work, have their own
  /// time. Returns true if the ranks that the kernel still waits for are lost.
  [[nodiscard]] bool look(uint64_t kernel, uint64_t now_ns) {
    const std::lock_guard lock(mutex_);
    if (looks_ == 0 || kernel != kernel_) {
      kernel_ = kernel;
      first_ns_ = now_ns;
      looks_ = 0;
    }
    ++looks_;
    return looks_ >= lost_looks && now_ns - first_ns_ >= lost_patience_ns;
  }

 private:
  std::mutex mutex_;
  uint64_t kernel_ = 0, first_ns_ = 0, looks_ = 0;
};

}  // namespace rondo::cuda
