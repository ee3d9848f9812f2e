// SPDX-License-Identifier: Apache-2.0
// This clock can be held and moved by a test. test_clock.cpp is linked instead of src/base/clock.cpp. Until the clock
// is held, now_ns() is the machine's time. Sleeps and waits for a word always take real time.
#pragma once

#include <cstdint>

namespace rondo_test {

/// Holds the clock while this object exists. No deadline of the library passes unless the test moves the time. Only one
/// such object may exist.
class HeldClock {
 public:
  HeldClock();
  ~HeldClock();
  HeldClock(const HeldClock &) = delete;
  HeldClock &operator=(const HeldClock &) = delete;

  void advance(uint64_t ns);

  /// Waits until threads have read the clock `count` times. A thread that polls reads the clock at each poll.
  void await_reads(uint64_t count) const;
};

}  // namespace rondo_test
