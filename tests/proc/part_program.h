// SPDX-License-Identifier: Apache-2.0
// The programs that split and shrink a communicator share this file. It runs their scenarios. It also lets a victim die
// as it connects to a store, and counts a communicator's resources.
#pragma once

#include <atomic>
#include <span>

#include "tests/proc/rank_program.h"

/// The victim of the scenario `strike` sets this flag. Its next connect() then kills it.
extern std::atomic<bool> strikes;

/// Forgets the connections of this process until now.
void forget_connections();
/// Returns whether this process has entered a store since forget_connections(). Then the store knows its rank.
[[nodiscard]] bool has_entered();

struct Scenario {
  const char *name;
  int (*run)(const Rank &, const Arguments &);
};

/// Makes the job's communicator, runs the scenario that the arguments name, and destroys the communicator. Returns the
/// exit status.
int run_scenario(int argc, char **argv, std::span<const Scenario> scenarios);

/// Prints that the rank got a wrong result. Returns the exit status.
int fail(const Rank &self, const char *what);

/// The resources of a communicator that may remain.
struct Held {
  Held();
  long descriptors = 0, threads = 0, mappings = 0;
};
