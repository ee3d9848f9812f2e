// SPDX-License-Identifier: Apache-2.0
// This file has the library's only clock (nanoseconds of CLOCK_MONOTONIC). It also has all functions in which a thread
// gives up its core: naps, yields, and waits for a word of memory. Core logic takes the time as an argument, and its
// callers read the clock here. The simulation of tests/sim links another version of this file. There the time is
// virtual, and waiting lets another rank run.
#pragma once

#include <cstdint>

namespace rondo {

[[nodiscard]] uint64_t now_ns();

/// Gives up the core for at least `ns`. A signal may end the wait early.
void sleep_for_ns(uint64_t ns);

/// Gives up the core to a thread that can run.
void yield_core();

/// Sleeps while `word` is `value`, at most timeout_ns. It may return early. Processes may share the word.
void wait_for_word(uint32_t &word, uint32_t value, uint64_t timeout_ns);

/// Wakes one thread that waits for `word`. Call it after a change of the word.
void wake_word(uint32_t &word);

}  // namespace rondo
