// SPDX-License-Identifier: Apache-2.0
#include "tests/test_clock.h"

#include <atomic>

// This includes the machine's clock under another name, and leaves the rest of that file unchanged.
#define now_ns machine_now_ns
#include "src/base/clock.cpp"
#undef now_ns

namespace rondo {
namespace {

std::atomic<uint64_t> held_ns = 0;     ///< 0 while the clock runs; pairs with the loads in now_ns()
std::atomic<uint64_t> read_count = 0;  ///< reads of the held clock; pairs with await_reads()
std::atomic<uint64_t> skipped_ns = 0;  ///< lead over the machine's time, since the test may have moved a held clock

}  // namespace

[[nodiscard]] uint64_t now_ns();

uint64_t now_ns() {
  const uint64_t held = held_ns.load(std::memory_order_acquire);  // pairs with HeldClock
  if (held == 0) return machine_now_ns() + skipped_ns.load(std::memory_order_acquire);
  read_count.fetch_add(1, std::memory_order_release);
  return held;
}

}  // namespace rondo

namespace rondo_test {

HeldClock::HeldClock() { rondo::held_ns.store(rondo::now_ns(), std::memory_order_release); }

/// Lets the time continue from the held time, or from the machine's time if the machine's time is later.
HeldClock::~HeldClock() {
  const uint64_t held = rondo::held_ns.load(std::memory_order_relaxed);  // relaxed: this side writes it
  const uint64_t machine = rondo::machine_now_ns();
  rondo::skipped_ns.store(held > machine ? held - machine : 0, std::memory_order_release);
  rondo::held_ns.store(0, std::memory_order_release);
}

void HeldClock::advance(uint64_t ns) { rondo::held_ns.fetch_add(ns, std::memory_order_release); }

void HeldClock::await_reads(uint64_t count) const {
  const uint64_t enough = rondo::read_count.load(std::memory_order_acquire) + count;
  while (rondo::read_count.load(std::memory_order_acquire) < enough) rondo::sleep_for_ns(1'000'000);  // as in now_ns()
}

}  // namespace rondo_test
