// SPDX-License-Identifier: Apache-2.0
// This class decides when the ranks for which a kernel waits are lost, if ranks share buffers
// (cuda/kernels/load_store_place.h). Only code in cuda/ includes it.
#pragma once

#include <cstdint>
#include <mutex>

#include "src/engine/device_executor.h"

namespace rondo::cuda {

/// A rank counts as lost after this time, in ns, and after lost_looks polls. Both begin at the first poll after a
/// failure that finds the kernel running. The polls are needed because a process that was stopped sees the whole time
/// pass at once.
inline constexpr uint64_t lost_patience_ns = 3'000'000'000;
inline constexpr uint64_t lost_looks = 1'000;
// A kernel that runs at the time of the failure must learn that ranks are lost before quiesce() gives up.
static_assert(lost_patience_ns < quiesce_patience_ns && lost_looks * stop_interval_ns < quiesce_patience_ns);

/// Decides when the peers of a kernel are lost. Any thread may use it.
class PeerLoss {
 public:
  /// Counts a poll after a failure while `kernel` runs; a later kernel starts the count again. Returns true if the
  /// ranks for which the kernel still waits are lost.
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
