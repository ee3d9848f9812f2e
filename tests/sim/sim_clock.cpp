// SPDX-License-Identifier: Apache-2.0
// This file implements src/base/clock.h for the simulation. It is linked instead of src/base/clock.cpp, so the waits of
// the library run the scheduler.
#include "src/base/clock.h"

#include "tests/sim/scheduler.h"

namespace rondo {

using sim::Scheduler;

uint64_t now_ns() { return Scheduler::current()->read_clock(); }

void sleep_for_ns(uint64_t ns) { Scheduler::current()->pause(ns); }

void yield_core() { Scheduler::current()->pause(0); }

void wait_for_word(uint32_t &word, uint32_t value, uint64_t timeout_ns) {
  Scheduler &scheduler = *Scheduler::current();
  scheduler.await(word, value, scheduler.loses_wakes() ? timeout_ns * 1'000'000 : timeout_ns);
}

void wake_word(uint32_t &word) {
  Scheduler &scheduler = *Scheduler::current();
  if (!scheduler.loses_this_wake()) scheduler.rouse(word);
}

}  // namespace rondo
