// SPDX-License-Identifier: Apache-2.0
// When a device that shares buffers is taken for lost with its kernel (cuda/kernels/load_store_place.h). A header of
// cuda/ alone.
#pragma once

#include <cstdint>
#include <mutex>

#include "src/engine/device_executor.h"

namespace rondo::cuda {

/// After that time since a failure or, where that came later, since the kernel was seen, and so many looks: a process
/// that was stopped finds all of the time gone at once.
inline constexpr uint64_t lost_patience_ns = 3'000'000'000;
inline constexpr uint64_t lost_looks = 1'000;
// Else quiesce() would give up before a kernel that ran at the failure has been told.
static_assert(lost_patience_ns < quiesce_patience_ns && lost_looks * stop_interval_ns < quiesce_patience_ns);

/// Any thread.
class PeerLoss {
 public:
  /// A look after a failure at the kernel that runs now: those that begin later, behind other work, have their own
  /// time. True: the ranks that it still waits for are lost.
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
