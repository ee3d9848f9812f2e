// SPDX-License-Identifier: Apache-2.0
// This clock measures the total time for which callers have waited for a host stream. While several callers wait, the
// time counts once. Each operation of the stream reads the clock at its begin and at its end. The difference is the
// time for which callers waited for that operation.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/clock.h"

namespace rondo {

class WaitClock {
 public:
  /// Returns the total. Any thread. The call costs one load if no caller waits.
  [[nodiscard]] uint64_t total_ns() const {
    const uint64_t word = word_.load(std::memory_order_acquire);  // pairs with begin() and end()
    return ((word >> 1) + ((word & 1) != 0 ? now_ns() : 0)) & time_mask;
  }

  // One thread at a time calls these functions.
  void begin(uint64_t now_ns) {
    if (waiter_count_++ == 0) set(total_ - now_ns, true);
  }
  void end(uint64_t now_ns, uint64_t waiter_count = 1) {
    if ((waiter_count_ -= waiter_count) != 0) return;
    total_ = ((word_.load(std::memory_order_relaxed) >> 1) + now_ns) & time_mask;  // relaxed: only this side writes it
    set(total_, false);
  }

 private:
  static constexpr uint64_t time_mask = UINT64_MAX >> 1;

  void set(uint64_t time_ns, bool waiting) {
    word_.store(time_ns << 1 | (waiting ? 1 : 0), std::memory_order_release);  // pairs with total_ns()
  }

  /// Bit 0 is set while a caller waits. The other bits are a time, modulo 2^63. While a caller waits, the time is the
  /// total minus the time at which the wait began. Otherwise it is the total.
  std::atomic<uint64_t> word_ = 0;
  uint64_t waiter_count_ = 0;
  uint64_t total_ = 0;  ///< total at the last end()
};

}  // namespace rondo
