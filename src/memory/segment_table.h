// SPDX-License-Identifier: Apache-2.0
// This table has a process's mapped segments of shared memory. Ranks that are threads of a process share a mapping.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace rondo {

namespace shm {
class Segment;  // defined by the transport; this file only counts its owners
}

/// The random name of a segment.
struct SegmentId {
  uint64_t high = 0;
  uint64_t low = 0;

  auto operator<=>(const SegmentId &) const = default;
};

/// The segments of this process. The table does not keep a segment alive: the segment ends with the last communicator
/// that uses it. Any thread.
class SegmentTable {
 public:
  void add(const SegmentId &id, const std::shared_ptr<shm::Segment> &segment) {
    const std::lock_guard lock(mutex_);
    std::erase_if(segments_, [](const auto &entry) { return entry.second.expired(); });
    segments_[id] = segment;
  }
  [[nodiscard]] std::shared_ptr<shm::Segment> find(const SegmentId &id) {
    const std::lock_guard lock(mutex_);
    const auto found = segments_.find(id);
    return found == segments_.end() ? nullptr : found->second.lock();
  }

 private:
  std::mutex mutex_;
  std::map<SegmentId, std::weak_ptr<shm::Segment>> segments_;
};

}  // namespace rondo
