// SPDX-License-Identifier: Apache-2.0
#include "src/base/clock.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace rondo {
namespace {

constexpr uint64_t ns_per_second = 1'000'000'000;

timespec timespec_of(uint64_t ns) {
  return {static_cast<time_t>(ns / ns_per_second), static_cast<long>(ns % ns_per_second)};
}

/// Calls futex() without FUTEX_PRIVATE_FLAG, since processes share the word.
void futex(uint32_t &word, int operation, uint32_t value, const timespec *timeout) {
  ::syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

}  // namespace

uint64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * ns_per_second + static_cast<uint64_t>(now.tv_nsec);
}

void sleep_for_ns(uint64_t ns) {
  const timespec time = timespec_of(ns);
  ::nanosleep(&time, nullptr);
}

void yield_core() { ::sched_yield(); }

void wait_for_word(uint32_t &word, uint32_t value, uint64_t timeout_ns) {
  const timespec timeout = timespec_of(timeout_ns);
  futex(word, FUTEX_WAIT, value, &timeout);
}

void wake_word(uint32_t &word) { futex(word, FUTEX_WAKE, 1, nullptr); }

}  // namespace rondo
