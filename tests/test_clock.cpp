// SPDX-License-Identifier: Apache-2.0
#include "tests/test_clock.h"

#include <atomic>

// This includes the machine's clock under another name, and leaves the rest of that file unchanged.
#define now_ns machine_now_ns
#include "src/base/clock.cpp"
#undef now_ns

namespace rondo {
namespace {

constexpr uint64_t is_being_held = 1;
/// 0 while the clock runs, then is_being_held, and then the held time. All its accesses are sequentially consistent.
std::atomic<uint64_t> held_ns = 0;
std::atomic<uint64_t> read_count = 0;  ///< reads of the held clock; pairs with await_reads()
std::atomic<uint64_t> skipped_ns = 0;  ///< lead over the machine's time, left by a test that moved a held clock

}  // namespace

[[nodiscard]] uint64_t now_ns();

/// Returns the held time. If no clock is held, returns the machine's time, unless a hold began while it was read. So no
/// time is later than one that is held afterwards, and time never runs backwards.
uint64_t now_ns() {
  while (true) {  // ends when HeldClock has read the time
    const uint64_t held = held_ns.load();
    if (held == is_being_held) {
      yield_core();
      continue;
    }
    if (held != 0) {
      read_count.fetch_add(1, std::memory_order_release);
      return held;
    }
    const uint64_t now = machine_now_ns() + skipped_ns.load(std::memory_order_acquire);  // pairs with ~HeldClock()
    if (held_ns.load() == 0) return now;
  }
}

}  // namespace rondo

namespace rondo_test {

HeldClock::HeldClock() {
  rondo::held_ns.store(rondo::is_being_held);
  rondo::held_ns.store(rondo::machine_now_ns() + rondo::skipped_ns.load(std::memory_order_acquire));
}

/// Lets the time continue from the held time, or from the machine's time if the machine's time is later.
HeldClock::~HeldClock() {
  const uint64_t held = rondo::held_ns.load();
  const uint64_t machine = rondo::machine_now_ns();
  rondo::skipped_ns.store(held > machine ? held - machine : 0, std::memory_order_release);
  rondo::held_ns.store(0);
}

void HeldClock::advance(uint64_t ns) { rondo::held_ns.fetch_add(ns); }

void HeldClock::await_reads(uint64_t count) const {
  const uint64_t enough = rondo::read_count.load(std::memory_order_acquire) + count;
  while (rondo::read_count.load(std::memory_order_acquire) < enough) rondo::sleep_for_ns(1'000'000);  // in real time
}

}  // namespace rondo_test
