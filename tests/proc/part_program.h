// SPDX-License-Identifier: Apache-2.0
// The programs that split and shrink a communicator share this file. It runs their scenarios. It also lets a victim die
// as it connects to a store, notes which ranks wait at a store, and counts a communicator's resources.
#pragma once

#include <atomic>
#include <span>
#include <string>

#include "tests/proc/rank_program.h"

/// The victim of the scenario `strike` sets this flag. Its next connect() then kills it.
extern std::atomic<bool> strikes;

/// Lets this thread make a file in the folder when it has next entered a store, and waits there. The store then knows
/// this thread's rank.
void note_arrival(const std::string &folder, int rank);
/// Waits until the other ranks below `rank_count` have arrived. Returns false if they have not after two minutes.
bool wait_for_arrivals(const std::string &folder, int own_rank, int rank_count);
/// The victim of `strike` waits for these arrivals before it dies, if the folder is not empty.
struct Awaited {
  std::string folder;
  int own_rank = 0, rank_count = 0;
};
extern Awaited awaited;

struct Scenario {
  const char *name;
  int (*run)(const Rank &, const Arguments &);
};

/// Makes the job's communicator, runs the scenario that the arguments name, and destroys the communicator. Returns the
/// exit status.
int run_scenario(int argc, char **argv, std::span<const Scenario> scenarios);

/// Prints that the rank got a wrong result. Returns the exit status.
int fail(const Rank &self, const char *what);

/// Resources of this process. A destroyed communicator must not leave any of them behind.
struct Held {
  Held();
  long descriptors = 0, threads = 0, mappings = 0;
};
