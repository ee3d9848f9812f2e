// SPDX-License-Identifier: Apache-2.0
// The planner of one rank chooses, makes and caches the plans of its communicator. For a new request, the tuner makes a
// choice, the planner builds the plan, and the executor prepares it. For a known request, the cache has the plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "src/base/config.h"
#include "src/core/plan_cache.h"
#include "src/engine/executor.h"
#include "src/engine/operations.h"
#include "src/links/init_context.h"
#include "src/links/transport.h"

namespace rondo {

/// A collective, after the API has checked its arguments.
struct Call {
  Signature signature;
  const void *send = nullptr;
  void *recv = nullptr;
  bool in_place = false;
  const size_t *counts = nullptr;         ///< for rondo_*_v: rank_count entries, read during submit() only
  const size_t *displacements = nullptr;  ///< for rondo_*_v: null if blocks follow each other without gaps
  std::shared_ptr<const CallDetails> details = nullptr;  ///< null for most calls

  /// Returns the blocks of a _v collective that exchanges blocks, otherwise null. They replace the two arrays above.
  [[nodiscard]] const BlockLists *lists() const { return std::get_if<BlockLists>(details.get()); }
};

class Planner {
 public:
  /// The parts of its communicator that a planner reads. They outlive the planner.
  struct Parts {
    uint32_t rank = 0;
    uint32_t rank_count = 1;
    const Settings &settings;
    const GroupInfo &group;
    const TuningTable *tuning;  ///< may be null
    Links &links;
    const Ranks &ranks;
    const Operations &operations;
    Executor &executor;
    const ExecutorCapabilities &capabilities;
  };
  explicit Planner(const Parts &parts) : parts_(parts) {}

  /// Returns the plan of the call, and makes the plan if the cache lacks it. One thread at a time may call it. The plan
  /// stays valid until the next plan_for(). If the caller sets its last_turn or captured, it stays valid longer.
  [[nodiscard]] Result<BoundPlan *> plan_for(const Call &call) {
    const PlanKey key{call.signature, call.in_place};
    if (BoundPlan *const known = cache_.find(key); known != nullptr) return known;
    return make(key, call);
  }
  /// Returns the choice that the plan of such a call would have. Any thread may call it.
  [[nodiscard]] Result<PlanChoice> choose(rondo_collective_t collective, uint64_t vector_elements, rondo_type_t type,
                                          bool uneven_blocks = false) const;

 private:
  Result<BoundPlan *> make(const PlanKey &key, const Call &call);
  [[nodiscard]] Result<std::unique_ptr<const Plan>> build(const Call &call) const;
  Result<std::unique_ptr<BoundPlan>> bind(const Call &call);
  void make_room(const Plan &plan);

  const Parts parts_;
  PlanCache cache_;
};

}  // namespace rondo
