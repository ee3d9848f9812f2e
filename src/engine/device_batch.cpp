// SPDX-License-Identifier: Apache-2.0
#include "src/engine/device_batch.h"

#include <map>
#include <tuple>

namespace rondo {
DeviceBatch::DeviceBatch(std::span<const Transfer> transfers, uint32_t channel_count)
    : transfers_(transfers.begin(), transfers.end()), channel_count_(channel_count) {
  std::map<std::tuple<uint32_t, bool, uint32_t>, std::vector<Part>> queues;
  for (uint32_t index = 0; index < transfers_.size(); ++index) {
    const Transfer &transfer = transfers_[index];
    each_part(transfer.bytes, channel_count, [&](uint32_t channel, uint64_t offset, uint64_t bytes) {
      std::vector<Part> &queue = queues[{channel, transfer.sends, transfer.peer}];
      queue.push_back({index, 0, static_cast<uint32_t>(queue.size()), channel, offset, bytes, none});
    });
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
