// SPDX-License-Identifier: Apache-2.0
// The one clock (nanoseconds of CLOCK_MONOTONIC), and every way in which the library hands its core over: naps, and
// waiting for a word. Core logic takes the time as an argument; its callers read the clock here. It is a file of its
// own so that the simulation of tests/sim can link another one. There the time is virtual, and waiting lets another
// rank run.
#pragma once

#include <cstdint>

namespace rondo {

[[nodiscard]] uint64_t now_ns();

/// Hands the core over for at least that long; a signal may end it early.
void sleep_for_ns(uint64_t ns);

/// Hands the core over to a thread that can run.
void yield_core();

/// Sleeps while `word` is `value`, at most timeout_ns; may return early. The word may be shared between processes.
void wait_for_word(uint32_t &word, uint32_t value, uint64_t timeout_ns);

/// Wakes one thread that waits for `word`, after a change of it.
void wake_word(uint32_t &word);

}  // namespace rondo
