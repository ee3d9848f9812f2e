// SPDX-License-Identifier: Apache-2.0
// The programs that split and shrink a communicator share this file. It has the frame of their scenarios, a victim that
// dies as it connects to a store, and counts of what is left of communicators.
#pragma once

#include <atomic>
#include <span>

#include "tests/proc/rank_program.h"

/// Set by the victim of the scenario `strike`: its next connect() kills it.
extern std::atomic<bool> strikes;

struct Scenario {
  const char *name;
  int (*run)(const Rank &, const Arguments &);
};

/// Makes the communicator of the job, runs the scenario that the arguments name, and destroys the communicator. Returns
/// the exit status.
int run_scenario(int argc, char **argv, std::span<const Scenario> scenarios);

/// Prints that the rank got what it must not get. Returns the exit status.
int fail(const Rank &self, const char *what);

/// Counts what may be left of a communicator.
struct Held {
  Held();
  long descriptors = 0, threads = 0, mappings = 0;
};
