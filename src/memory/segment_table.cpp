// SPDX-License-Identifier: Apache-2.0
#include "src/memory/segment_table.h"

namespace rondo {

void SegmentTable::add(const SegmentId &id, const std::shared_ptr<shm::Segment> &segment) {
  const std::lock_guard lock(mutex_);
  std::erase_if(segments_, [](const auto &entry) { return entry.second.expired(); });
  segments_[id] = segment;
}

std::shared_ptr<shm::Segment> SegmentTable::find(const SegmentId &id) {
  const std::lock_guard lock(mutex_);
  const auto found = segments_.find(id);
  return found == segments_.end() ? nullptr : found->second.lock();
}

}  // namespace rondo
