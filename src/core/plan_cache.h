// SPDX-License-Identifier: Apache-2.0
// The plans of a communicator, by request. A plan stays while an operation uses it, or if an operation was captured
// with it. Of the others, the least recently used one is evicted first.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "src/engine/executor.h"
#include "src/plan/plan.h"

namespace rondo {

/// A plan, and what the communicator's executor has prepared for it.
struct BoundPlan {
  std::unique_ptr<const Plan> plan;
  std::unique_ptr<PreparedPlan> prepared;
  uint64_t last_turn = 0;  ///< of the latest operation that uses it
  bool captured = false;        ///< a graph may run it at any time, and so it stays
};

/// The key of a plan in the cache. `counts_hash` stands for uneven counts (BLAKE2b, 63 bits).
struct PlanKey {
  Signature signature;
  bool in_place = false;

  bool operator==(const PlanKey &) const = default;
};

/// Calls are serialised by the communicator.
class PlanCache {
 public:
  static constexpr size_t plan_count_max = 256;

  [[nodiscard]] BoundPlan *find(const PlanKey &key) {
    if (latest_ != nullptr && key == latest_key_) return latest_;
    return find_in_table(key);
  }
  /// Adds a plan. If the cache is full, evicts one whose last turn is at most `executed`. All may be in use: then the
  /// cache grows. Queues bound that growth; for captured plans, the memory for plans does.
  BoundPlan &add(const PlanKey &key, std::unique_ptr<BoundPlan> plan, uint64_t executed);
  /// Evicts the least recently used plan whose last turn is at most `executed`, and which no graph has. False if none
  /// is.
  bool evict_one(uint64_t executed);

 private:
  struct Hash {
    size_t operator()(const PlanKey &key) const;
  };
  BoundPlan *find_in_table(const PlanKey &key);

  std::unordered_map<PlanKey, std::unique_ptr<BoundPlan>, Hash> plans_;
  PlanKey latest_key_;
  BoundPlan *latest_ = nullptr;  ///< what find() or add() gave last; most programs repeat one call
};

}  // namespace rondo
