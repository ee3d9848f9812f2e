// SPDX-License-Identifier: Apache-2.0
#include "src/engine/device_batch.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace rondo {
namespace {

constexpr uint64_t align_bytes = 256;

/// Returns the number of parts of a message. Both ends compute it from the size alone.
uint32_t part_count(uint64_t bytes, uint32_t channel_count) {
  return static_cast<uint32_t>(std::clamp<uint64_t>(bytes / DeviceBatch::part_bytes_min, 1, channel_count));
}

}  // namespace

DeviceBatch::DeviceBatch(std::span<const Transfer> transfers, uint32_t channel_count)
    : transfers_(transfers.begin(), transfers.end()) {
  std::map<std::tuple<uint32_t, bool, uint32_t>, std::vector<Part>> queues;
  for (uint32_t index = 0; index < transfers_.size(); ++index) {
    const Transfer &transfer = transfers_[index];
    const uint32_t count = part_count(transfer.bytes, channel_count);
    const uint64_t step = (transfer.bytes / count + align_bytes - 1) / align_bytes * align_bytes;
    for (uint32_t channel = 0; channel < count; ++channel) {
      const uint64_t offset = count == 1 ? 0 : std::min(channel * step, transfer.bytes);
      const uint64_t end = channel + 1 == count ? transfer.bytes : std::min(offset + step, transfer.bytes);
      std::vector<Part> &queue = queues[{channel, transfer.sends, transfer.peer}];
      queue.push_back({index, 0, static_cast<uint32_t>(queue.size()), channel, offset, end - offset, none});
    }
  }
  queue_count_ = static_cast<uint32_t>(queues.size());
  parts_.resize(queue_count_);
  uint32_t number = 0;
  for (auto &[key, queue] : queues) {
    uint32_t before = none;
    for (Part &part : queue) {
      part.queue = number;
      uint32_t at = number;
      if (before == none) {
        parts_[number] = part;
      } else {
        at = static_cast<uint32_t>(parts_.size());
        parts_.push_back(part);
        parts_[before].next = at;
      }
      before = at;
    }
    ++number;
  }
}

}  // namespace rondo
