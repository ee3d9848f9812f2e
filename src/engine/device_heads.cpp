// SPDX-License-Identifier: Apache-2.0
#include "src/engine/device_heads.h"

#include <algorithm>
#include <set>
#include <utility>

namespace rondo {

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
