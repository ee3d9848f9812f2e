// SPDX-License-Identifier: Apache-2.0
// This cache holds the plans of a communicator, by request. A plan is never evicted while an operation uses it, or
// after an operation was captured with it. Of the other plans, the least recently used is evicted first.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "src/engine/executor.h"
#include "src/plan/plan.h"

namespace rondo {

/// A plan, and the PreparedPlan that the communicator's executor has made for it.
struct BoundPlan {
  std::unique_ptr<const Plan> plan;
  std::unique_ptr<PreparedPlan> prepared;
  uint64_t last_turn = 0;  ///< turn of the latest operation that uses the plan
  bool captured = false;        ///< true if a graph may run the plan at any time, so that it stays
};

/// The key of a plan in the cache.
struct PlanKey {
  Signature signature;
  bool in_place = false;

  bool operator==(const PlanKey &) const = default;
};

/// The cache itself. The communicator serialises all calls.
class PlanCache {
 public:
  static constexpr size_t plan_count_max = 256;

  [[nodiscard]] BoundPlan *find(const PlanKey &key) {
    if (latest_ != nullptr && key == latest_key_) return latest_;
    return find_in_table(key);
  }
  /// Adds a plan. If the cache is full, evicts a plan whose last turn is at most `executed`. If all plans are in use,
  /// the cache grows. That growth is limited by the lengths of the queues. For captured plans, only memory limits it.
  BoundPlan &add(const PlanKey &key, std::unique_ptr<BoundPlan> plan, uint64_t executed);
  /// Evicts the least recently used plan among those that no graph uses and whose last turn is at most `executed`.
  /// Returns false if no such plan exists.
  bool evict_one(uint64_t executed);

 private:
  struct Hash {
    size_t operator()(const PlanKey &key) const;
  };
  BoundPlan *find_in_table(const PlanKey &key);

  std::unordered_map<PlanKey, std::unique_ptr<BoundPlan>, Hash> plans_;
  PlanKey latest_key_;
  BoundPlan *latest_ = nullptr;  ///< latest result of find() or add(), since most programs repeat one call
};

}  // namespace rondo
