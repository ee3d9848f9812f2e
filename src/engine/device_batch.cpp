// SPDX-License-Identifier: Apache-2.0
#include "src/engine/device_batch.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "src/links/message_boards.h"

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

DeviceHeads::DeviceHeads(const BatchProgress &progress, std::shared_ptr<const DeviceBatch> batch, uint64_t turn,
                         MessageBoards &boards, uint32_t rank)
    : progress_(progress), batch_(std::move(batch)), turn_(turn), boards_(boards), rank_(rank) {
  refresh();
}

void DeviceHeads::refresh() {
  std::vector<bool> done(batch_->transfers().size(), true);
  for (const DeviceBatch::Part &part : batch_->parts())
    if (part.position >= progress_.parts_done(turn_, part.queue)) done[part.transfer] = false;
  std::vector<uint32_t> heads;
  std::set<std::pair<uint32_t, bool>> seen;  // pairs of peer and direction
  for (uint32_t index = 0; index < done.size(); ++index) {
    const Transfer &transfer = batch_->transfers()[index];
    if (!done[index] && seen.emplace(transfer.peer, transfer.sends).second) heads.push_back(index);
  }
  if (heads.empty() && heads_.empty()) heads.push_back(0);
  if (heads.empty() || heads == heads_) return;
  heads_ = std::move(heads);
  noted_.clear();  // the notes are older than the kernel's progress
}

bool DeviceHeads::is_done(uint32_t transfer) const {
  for (const DeviceBatch::Part &part : batch_->parts())
    if (part.transfer == transfer && part.position >= progress_.parts_done(turn_, part.queue)) return false;
  return true;
}

const Transfer *DeviceHeads::receiving_from(uint32_t peer) const {
  for (const uint32_t index : heads_) {
    const Transfer &transfer = batch_->transfers()[index];
    if (!transfer.sends && transfer.peer == peer) return &transfer;
  }
  return nullptr;
}

bool DeviceHeads::is_blocked(size_t index) {
  const uint32_t block_count = progress_.block_count(batch_->queue_count());
  const bool first = noted_.empty();
  noted_.resize(block_count);
  bool blocked = !first;
  for (uint32_t block = 0; block < block_count; ++block) {
    const uint32_t quiet = progress_.quiet_checks(turn_, block);
    if (first) noted_[block] = quiet;
    // The first check that is counted after the note may have begun before the note, so two checks are needed. If the
    // count is below the noted one, it has restarted from 0.
    const bool again = quiet == UINT32_MAX || quiet >= noted_[block] + 2 || (quiet < noted_[block] && quiet >= 2);
    blocked = blocked && again;
  }
  return blocked && !is_done(heads_[index]);  // read last: the message may have arrived since the counts were read
}

size_t DeviceHeads::late_head() {
  const auto is_late = [&](uint32_t index) {
    const Transfer &transfer = batch_->transfers()[index];
    return boards_.knows(transfer.peer) &&
           boards_.pair(transfer.peer, rank_, !transfer.sends).entered < transfer.message;
  };
  const auto late = std::find_if(heads_.begin(), heads_.end(), is_late);
  return late != heads_.end() ? static_cast<size_t>(late - heads_.begin()) : 0;
}

}  // namespace rondo
