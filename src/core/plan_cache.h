// SPDX-License-Identifier: Apache-2.0
// The plans of a communicator, by what was asked for. A plan that an operation uses is pinned and stays; of the others
// the least recently used one makes room.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "src/engine/host_links.h"
#include "src/plan/plan.h"

namespace rondo {

/// A plan, and the links of this communicator that it runs over.
struct BoundPlan {
  std::unique_ptr<const Plan> plan;
  std::vector<std::vector<LinkEnds *>> ends;  ///< channel -> link -> ends
  std::vector<HostLinks> links;               ///< one a channel; spans of `ends`
  HostReducer reducer;
  std::atomic<uint32_t> pin_count = 0;  ///< operations that use it; release on unpin pairs with acquire in evict
  uint64_t last_use = 0;
};

/// What a plan is looked up by. `counts_hash` stands for uneven counts (BLAKE2b, 63 bits).
struct PlanKey {
  Signature signature;
  bool in_place = false;

  bool operator==(const PlanKey &) const = default;
};

/// Calls are serialised by the communicator.
class PlanCache {
 public:
  static constexpr size_t plan_count_max = 256;

  [[nodiscard]] BoundPlan *find(const PlanKey &key);
  /// Evicts first where the cache is full; all of them may be in use, then it grows (queues bound that).
  BoundPlan &add(const PlanKey &key, std::unique_ptr<BoundPlan> plan);

 private:
  struct Hash {
    size_t operator()(const PlanKey &key) const;
  };
  void evict_one();

  std::unordered_map<PlanKey, std::unique_ptr<BoundPlan>, Hash> plans_;
  uint64_t use_ = 0;
};

}  // namespace rondo
