// SPDX-License-Identifier: Apache-2.0
// Runs one life: every rank bootstraps, calls, verifies, finalizes and destroys with the library's own code, while the
// plan's faults happen. What comes out is a record; judge.h says whether it is as promised.
#pragma once

#include <optional>

#include "tests/sim/life_plan.h"
#include "tests/sim/scheduler.h"

namespace rondo::sim {

struct CallRecord {
  Signature signature;
  uint64_t called_ns = 0;
  uint64_t returned_ns = never_ns;
  uint64_t lost_ns = 0;  ///< of the time between them, see Scheduler::lost_ns()
  bool ok = false;
  Error error;        ///< where it is not ok
  std::string wrong;  ///< where it is ok, and the result is not
};

struct RankRecord {
  bool came = false;
  uint64_t init_called_ns = 0;
  uint64_t init_returned_ns = never_ns;
  uint64_t init_lost_ns = 0;
  uint64_t entered_init_ns = never_ns;  ///< the store knows it
  std::optional<Error> init_error;
  std::vector<CallRecord> calls;     ///< in order: operation i + 1
  std::vector<uint64_t> entered_ns;  ///< when the others could see operation i + 1
  uint64_t completed = 0;            ///< the latest operation that it completed
  uint64_t died_ns = never_ns;
  uint64_t stopped_ns = never_ns;  ///< for good
  uint64_t idle_ns = never_ns;     ///< it calls nothing from then on
  uint64_t left_ns = never_ns;
  uint64_t finalized_ns = never_ns;
  uint64_t aborted_ns = never_ns;
  bool closed = false;
  std::string after_failure;  ///< what was wrong with the communicator after it had failed
  bool noticed = false;       ///< a rank that calls nothing: it saw the failure
};

struct FailureRecord {
  uint32_t rank = 0;  ///< the one that recorded it
  uint64_t at_ns = 0;
  Error error;
};

struct LifeRecord {
  std::vector<RankRecord> ranks;
  std::optional<FailureRecord> failure;
  Scheduler::Outcome outcome = Scheduler::Outcome::over;
  std::vector<uint32_t> happened;  ///< the plan's faults that did, by index
  uint64_t ended_ns = 0;
  uint64_t switch_count = 0;
  uint64_t hash = 0;
  bool cut = false;  ///< the network was
};

[[nodiscard]] LifeRecord live(const LifePlan &plan, StackPool &stacks);

}  // namespace rondo::sim
