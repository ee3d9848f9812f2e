// SPDX-License-Identifier: Apache-2.0
#include "src/core/plan_cache.h"

#include <algorithm>

namespace rondo {

size_t PlanCache::Hash::operator()(const PlanKey &key) const {
  return identity_of(key.signature, PlanChoice{}) ^ (key.in_place ? 1u : 0u);
}

BoundPlan *PlanCache::find_in_table(const PlanKey &key) {
  const auto found = plans_.find(key);
  if (found == plans_.end()) return nullptr;
  latest_key_ = key;
  latest_ = found->second.get();
  return latest_;
}

BoundPlan &PlanCache::add(const PlanKey &key, std::unique_ptr<BoundPlan> plan, uint64_t executed) {
  const auto kept_for_graphs = static_cast<size_t>(
      std::count_if(plans_.begin(), plans_.end(), [](const auto &each) { return each.second->captured; }));
  if (plans_.size() - kept_for_graphs >= plan_count_max) evict_one(executed);
  latest_key_ = key;
  latest_ = (plans_[key] = std::move(plan)).get();
  return *latest_;
}

bool PlanCache::evict_one(uint64_t executed) {
  auto oldest = plans_.end();
  for (auto it = plans_.begin(); it != plans_.end(); ++it) {
    if (it->second->captured || it->second->last_turn > executed) continue;
    if (oldest == plans_.end() || it->second->last_turn < oldest->second->last_turn) oldest = it;
  }
  if (oldest == plans_.end()) return false;
  if (latest_ == oldest->second.get()) latest_ = nullptr;
  plans_.erase(oldest);
  return true;
}

}  // namespace rondo
