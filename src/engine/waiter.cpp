// SPDX-License-Identifier: Apache-2.0
#include "src/engine/waiter.h"

#include "src/base/clock.h"
#include "src/base/cpu.h"

namespace rondo {
namespace {

constexpr uint64_t look_interval_ns = 5'000'000;  // well below the second in which a peer's death must be noticed
constexpr uint64_t sleep_ns = 20'000'000;         // the longest delay by a missed wake-up
constexpr uint64_t nap_ns = 50'000;
constexpr uint32_t short_spin = 16;        // rounds before the check whether a peer needs this processor
constexpr uint32_t spins_per_check = 64;   // rounds between checks for a failure, each of which costs a load
constexpr uint32_t spins_per_look = 4096;  // rounds between reads of the clock; after some of them look() runs

}  // namespace

bool Waiter::idle() {
  if (policy_.progresses && peers_.progress() && !watch_.stopped()) return true;
  ++round_;
  // If a peer last waited on this processor, it cannot answer while this rank spins here.
  if (round_ == short_spin && short_spin < policy_.spin_count && peers_.shares_processor())
    round_ = policy_.spin_count + 1;
  const bool spins = round_ <= policy_.spin_count;
  if (spins) cpu_pause();
  if (spins && round_ % spins_per_check != 0) return true;
  if (watch_.stopped()) return false;
  if (spins && round_ % spins_per_look != 0) return true;
  const uint64_t now = now_ns();
  if (next_look_ns_ == 0) next_look_ns_ = now + look_interval_ns;  // not now: a check costs more than most waits
  if (now >= next_look_ns_) {
    next_look_ns_ = now + look_interval_ns;
    if (watch_.look(now)) return false;
  }
  if (spins) return true;
  if (round_ > policy_.spin_count + policy_.yield_count) return rest();
  yield_core();
  return true;
}

bool Waiter::rest() {
  --round_;  // the count stays at its limit until a lane moves
  if (!policy_.sleeps) {
    sleep_for_ns(nap_ns);
    return true;
  }
  if (armed_) {
    peers_.sleep(ticket_, sleep_ns);
    disarm();
    return true;
  }
  ticket_ = peers_.prepare_sleep();
  armed_ = true;
  return true;
}

void Waiter::disarm() {
  peers_.cancel_sleep();
  armed_ = false;
}

}  // namespace rondo
