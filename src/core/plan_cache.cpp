// SPDX-License-Identifier: Apache-2.0
#include "src/core/plan_cache.h"

namespace rondo {

size_t PlanCache::Hash::operator()(const PlanKey &key) const {
  return fingerprint(0, key.signature, PlanChoice{}) ^ (key.in_place ? 1u : 0u);
}

BoundPlan *PlanCache::find(const PlanKey &key) {
  const auto found = plans_.find(key);
  if (found == plans_.end()) return nullptr;
  found->second->last_use = ++use_;
  return found->second.get();
}

BoundPlan &PlanCache::add(const PlanKey &key, std::unique_ptr<BoundPlan> plan) {
  if (plans_.size() >= plan_count_max) evict_one();
  plan->last_use = ++use_;
  return *(plans_[key] = std::move(plan));
}

void PlanCache::evict_one() {
  auto oldest = plans_.end();
  for (auto it = plans_.begin(); it != plans_.end(); ++it) {
    if (it->second->pin_count.load(std::memory_order_acquire) != 0) continue;  // pairs with the release on unpin
    if (oldest == plans_.end() || it->second->last_use < oldest->second->last_use) oldest = it;
  }
  if (oldest != plans_.end()) plans_.erase(oldest);
}

}  // namespace rondo
