// SPDX-License-Identifier: Apache-2.0
#include "src/engine/wait_cycle.h"

#include <algorithm>
#include <array>

#include "src/base/arithmetic.h"

namespace rondo {
namespace {

/// Counts the slots of messages on each channel.
class SlotCounts {
 public:
  SlotCounts(const DeviceBatch &batch, const SlotShape &slots) : channel_count_(batch.channel_count()), slots_(slots) {}

  /// Adds a message. Returns whether the slots of a channel exceed its FIFO.
  [[nodiscard]] bool add(uint64_t bytes) {
    bool full = false;
    DeviceBatch::each_part(bytes, channel_count_, [&](uint32_t channel, uint64_t, uint64_t part_bytes) {
      counts_[channel] += std::max<uint64_t>(1, ceil_div(part_bytes, slots_.slot_bytes));
      full = full || counts_[channel] > slots_.slot_count;
    });
    return full;
  }

 private:
  const uint32_t channel_count_;
  const SlotShape slots_;
  std::array<uint64_t, DeviceBatch::channels_max> counts_{};
};

/// Returns the blocked send `head` and the receive that it needs. If it needs no receive, returns zeros.
BlockedSend needed_by(const Transfer &head, const DeviceBatch &batch, const SlotShape &slots,
                      const MessageBoards &boards, uint32_t rank) {
  SlotCounts counts(batch, slots);
  uint64_t message = head.message;
  const std::span<const Transfer> until_head(batch.transfers().data(), &head + 1);
  for (auto each = until_head.rbegin(); each != until_head.rend(); ++each) {
    if (each->peer != head.peer || !each->sends) continue;
    message = each->message;
    if (counts.add(each->bytes)) return {head.message, message};
  }
  while (--message != 0) {  // goes back over earlier batches; ends when the FIFO is full
    const auto earlier = boards.find(rank, head.peer, true, message);
    if (!earlier) return {};  // its record is overwritten
    if (counts.add(earlier->bytes)) return {head.message, message};
  }
  return {};
}

/// Marks all entered messages of the report as complete.
void complete_all(WaitReport &report) {
  for (WaitReport::Pair &pair : report.pairs) {
    pair.sends.completed = pair.sends.entered;
    pair.receives.completed = pair.receives.entered;
  }
}

}  // namespace

WaitReport count_called(const Ranks &ranks, const MessageBoards &boards, uint32_t rank, uint32_t rank_count) {
  WaitReport report;
  report.batches = boards.batches(rank);
  report.entered = report.completed = ranks.completed_operation(rank);
  const bool has_messages = report.batches.entered != 0;
  report.batches.entered = report.batches.completed;
  for (uint32_t peer = 0; has_messages && peer < rank_count; ++peer) {
    WaitReport::Pair &pair = report.pairs[peer];
    pair.sends.entered = boards.pair(rank, peer, true).entered;
    pair.receives.entered = boards.pair(rank, peer, false).entered;
  }
  return report;
}

void remove_later(WaitReport &report, std::span<const Transfer> later) {
  for (const Transfer &each : later) {
    WaitReport::Pair &pair = report.pairs[each.peer];
    PairCounts &counts = each.sends ? pair.sends : pair.receives;
    counts.entered = std::min(counts.entered, each.message - 1);
  }
}

void add_collective(WaitReport &report, uint64_t number) {
  report.entered = number;
  complete_all(report);
}

void add_batch(WaitReport &report, const TransferHeads &heads, const DeviceBatch &batch, const SlotShape &slots,
               const MessageBoards &boards, uint32_t rank) {
  ++report.batches.entered;
  complete_all(report);
  for (size_t index = 0; index < heads.head_count(); ++index) {
    const Transfer &head = heads.head(index);
    WaitReport::Pair &pair = report.pairs[head.peer];
    (head.sends ? pair.sends : pair.receives).completed = head.message - 1;
    if (head.sends) pair.blocked = needed_by(head, batch, slots, boards, rank);
  }
}

}  // namespace rondo
