// SPDX-License-Identifier: Apache-2.0
#include "src/engine/waiter.h"

#include "src/base/clock.h"
#include "src/base/cpu.h"

namespace rondo {
namespace {

constexpr uint64_t look_interval_ns = 5'000'000;  // well under the second in which a dead peer must be noticed
constexpr uint64_t sleep_ns = 20'000'000;         // a missed bell costs this at most
constexpr uint64_t nap_ns = 50'000;
constexpr uint32_t short_spin = 16;        // then ask whether a peer needs this processor
constexpr uint32_t spins_per_check = 64;   // whether the communicator failed: a load
constexpr uint32_t spins_per_look = 4096;  // the clock, and now and then everything else

}  // namespace

bool Waiter::idle() {
  if (policy_.progresses && peers_.progress() && !watch_.stopped()) return true;
  ++round_;
  // A peer that last waited on this processor cannot answer while this rank spins there.
  if (round_ == short_spin && short_spin < policy_.spin_count && peers_.shares_processor())
    round_ = policy_.spin_count + 1;
  const bool spins = round_ <= policy_.spin_count;
  if (spins) cpu_pause();
  if (spins && round_ % spins_per_check != 0) return true;
  if (watch_.stopped()) return false;
  if (spins && round_ % spins_per_look != 0) return true;
  const uint64_t now = now_ns();
  if (next_look_ns_ == 0) next_look_ns_ = now + look_interval_ns;  // a look costs more than most waits take
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
  --round_;  // stays here until something moves
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
