// SPDX-License-Identifier: Apache-2.0
// This file runs one life: every rank bootstraps, calls, verifies, finalizes and destroys with the library's own code,
// while the plan's faults happen. The result is a record, which judge.h checks.
#pragma once

#include <optional>

#include "tests/sim/life_plan.h"
#include "tests/sim/scheduler.h"

namespace rondo::sim {

struct CallRecord {
  Signature signature;
  uint64_t called_ns = 0;
  uint64_t returned_ns = never_ns;
  uint64_t lost_ns = 0;  ///< time lost by stops before the return, see Scheduler::lost_ns()
  bool ok = false;
  Error error;        ///< set if `ok` is false
  std::string wrong;  ///< set if `ok` is true and the result is wrong
};

struct RankRecord {
  bool came = false;
  uint64_t init_called_ns = 0;
  uint64_t init_returned_ns = never_ns;
  uint64_t init_lost_ns = 0;
  uint64_t entered_init_ns = never_ns;  ///< when the store learned of it
  std::optional<Error> init_error;
  std::vector<CallRecord> calls;     ///< in order: operation i + 1
  std::vector<uint64_t> entered_ns;  ///< when other ranks could see operation i + 1
  uint64_t completed = 0;            ///< its latest completed operation
  uint64_t died_ns = never_ns;
  uint64_t stopped_ns = never_ns;  ///< when it was stopped for good
  uint64_t idle_ns = never_ns;     ///< from then on it calls nothing
  uint64_t left_ns = never_ns;
  uint64_t finalized_ns = never_ns;
  uint64_t aborted_ns = never_ns;
  bool closed = false;
  std::string after_failure;  ///< what was wrong with the communicator after its failure
  bool noticed = false;       ///< for a rank that calls nothing: it noticed the failure
};

struct FailureRecord {
  uint32_t rank = 0;  ///< the rank that recorded it
  uint64_t at_ns = 0;
  Error error;
};

struct LifeRecord {
  std::vector<RankRecord> ranks;
  std::optional<FailureRecord> failure;
  Scheduler::Outcome outcome = Scheduler::Outcome::over;
  std::vector<uint32_t> happened;  ///< indices of the plan's faults that happened
  uint64_t ended_ns = 0;
  uint64_t switch_count = 0;
  uint64_t hash = 0;
  bool cut = false;  ///< the network was cut
};

[[nodiscard]] LifeRecord live(const LifePlan &plan, StackPool &stacks);

}  // namespace rondo::sim
