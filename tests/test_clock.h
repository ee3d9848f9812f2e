// SPDX-License-Identifier: Apache-2.0
// A clock that the test holds and moves. test_clock.cpp is linked in the place of src/base/clock.cpp: now_ns() is the
// machine's time until it is held. Sleeps and waits for a word take real time all the while.
#pragma once

#include <cstdint>

namespace rondo_test {

/// Holds the clock while it lives: no deadline of the library passes unless the test moves the time. One at a time.
class HeldClock {
 public:
  HeldClock();
  ~HeldClock();
  HeldClock(const HeldClock &) = delete;
  HeldClock &operator=(const HeldClock &) = delete;

  void advance(uint64_t ns);
};

}  // namespace rondo_test
