// SPDX-License-Identifier: Apache-2.0
// When a device that shares buffers is taken for lost with its kernel (cuda/kernels/load_store_place.h). A header of
// cuda/ alone.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/engine/device_executor.h"

namespace rondo::cuda {

/// After that time since a failure, and so many looks: a process that was stopped finds all of the time gone at once.
inline constexpr uint64_t lost_patience_ns = 3'000'000'000;
inline constexpr uint64_t lost_looks = 1'000;
// Else quiesce() would give up before the kernels have been told.
static_assert(lost_patience_ns < quiesce_patience_ns && lost_looks * stop_interval_ns < quiesce_patience_ns);

/// Any thread. Relaxed throughout: it orders nothing.
class PeerLoss {
 public:
  /// A look after a failure, whose time the first one takes down. True: what has not ended by now is lost.
  [[nodiscard]] bool look(uint64_t now_ns) {
    uint64_t first = 0;
    if (first_ns_.compare_exchange_strong(first, now_ns, std::memory_order_relaxed)) first = now_ns;
    const uint64_t looks = looks_.fetch_add(1, std::memory_order_relaxed) + 1;
    return looks >= lost_looks && now_ns - first >= lost_patience_ns;
  }

 private:
  std::atomic<uint64_t> first_ns_{0};
  std::atomic<uint64_t> looks_{0};
};

}  // namespace rondo::cuda
