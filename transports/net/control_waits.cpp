// SPDX-License-Identifier: Apache-2.0
// This file asks and answers over the control plane what a rank waits for. The answers show circles of ranks that wait
// for each other (src/engine/wait_cycle.h).
#include <algorithm>

#include "src/base/clock.h"
#include "transports/net/control.h"

namespace rondo::net {
namespace {

constexpr size_t head_bytes = 2 * sizeof(uint32_t) + sizeof(Inquiry) + 5 * sizeof(uint64_t) + 2 * sizeof(uint32_t);
constexpr size_t pair_bytes = sizeof(uint32_t) + 6 * sizeof(uint64_t);
constexpr uint32_t cell_pairs_max = (cell_bytes - head_bytes) / pair_bytes;
static_assert(message_ranks_max / cell_pairs_max < ControlLines::unheard_max);

bool is_used(const WaitReport::Pair &pair) { return pair.sends.entered != 0 || pair.receives.entered != 0; }

Cell &put(Cell &cell, uint32_t with, const WaitReport::Pair &pair) {
  return cell.put(with)
      .put(pair.sends.entered)
      .put(pair.sends.completed)
      .put(pair.receives.entered)
      .put(pair.receives.completed)
      .put(pair.blocked.message)
      .put(pair.blocked.needed);
}

WaitReport::Pair pair_of(ByteReader &body) {
  WaitReport::Pair pair;
  for (uint64_t *const field : {&pair.sends.entered, &pair.sends.completed, &pair.receives.entered,
                                &pair.receives.completed, &pair.blocked.message, &pair.blocked.needed})
    *field = body.number<uint64_t>();
  return pair;
}

}  // namespace

bool Control::waits(uint32_t peer, uint64_t since_ns, WaitReport &report) {
  const std::lock_guard own(mutex_);
  const ControlLock lock(header(), index_, 0, ended_);
  if (!lock.held()) return false;
  RemoteWaits &known = remote(peer).waits;
  const uint64_t now = now_ns();
  if (known.arrived_ns != 0 && known.arrived_ns >= since_ns) {
    report = known.report;
    return true;
  }
  // The ranks of this host share the question and its answer.
  const bool asked = known.asked_ns >= since_ns && now - known.asked_ns < ask_again_ns;
  if (asked || remote(peer).ended != 0) return false;
  Cell cell(CellKind::ask_waits);
  if (lines_.send(parts_.host_of[peer], cell.put(Inquiry{peer, 0}).put(now))) known.asked_ns = now;
  return false;
}

void Control::take_waits_question(uint32_t host, ByteReader body) {
  const Inquiry asked = inquiry_of(body);
  const auto asked_ns = body.number<uint64_t>();
  MessageBoards *const boards = parts_.local->messages();
  if (body.failed() || !is_of(host_, asked.rank) || boards == nullptr) return;
  const auto index = static_cast<uint32_t>(std::ranges::find(local_ranks_, asked.rank) - local_ranks_.begin());
  WaitReport report;
  const bool on_device = boards->device_waits(index, report);
  if (!on_device) {
    report.completed = parts_.local->completed_operation(index);  // read before `entered`, as in WaitReport
    report.entered = parts_.local->latest_operation(index);
    report.batches = boards->batches(index);
  }
  const uint64_t batch_count = boards->batches(index).entered;
  if (batch_count != 0 && !boards->open().ok()) return;
  const auto rank_count = static_cast<uint32_t>(std::min<size_t>(parts_.host_of.size(), message_ranks_max));
  uint32_t with = batch_count == 0 ? rank_count : 0;
  bool last = false;
  while (!last) {  // ends: each cell except the last takes ranks
    std::array<std::pair<uint32_t, WaitReport::Pair>, cell_pairs_max> taken;
    uint32_t count = 0;
    for (; with < rank_count && count < cell_pairs_max; ++with) {
      WaitReport::Pair pair = report.pairs[with];
      if (!on_device) {  // in the order in which a search on one host reads
        pair.receives = boards->pair(index, with, false);
        pair.sends = boards->pair(index, with, true);
        pair.blocked = boards->blocked(index, with);
      }
      if (is_used(pair)) taken[count++] = {with, pair};
    }
    last = with == rank_count;
    Cell cell(CellKind::waits);
    cell.put(asked).put(asked_ns).put(report.batches.entered).put(report.batches.completed);
    cell.put(report.entered).put(report.completed);
    cell.put(uint32_t{last}).put(count);
    for (uint32_t each = 0; each < count; ++each) put(cell, taken[each].first, taken[each].second);
    if (!lines_.send(host, cell)) return;
  }
}

void Control::take_waits(uint32_t host, ByteReader body) {
  const Inquiry answered = inquiry_of(body);
  const auto asked_ns = body.number<uint64_t>();
  if (body.failed() || !is_of(host, answered.rank)) return;
  RemoteWaits &known = remote(answered.rank).waits;
  if (asked_ns == 0 || asked_ns > known.asked_ns) return;
  if (known.arriving_ns != asked_ns) known.arriving = {};
  known.arriving_ns = asked_ns;
  WaitReport &report = known.arriving;
  for (uint64_t *const field :
       {&report.batches.entered, &report.batches.completed, &report.entered, &report.completed})
    *field = body.number<uint64_t>();
  const bool last = body.number<uint32_t>() != 0;
  const uint32_t count = std::min(body.number<uint32_t>(), cell_pairs_max);
  for (uint32_t each = 0; each < count; ++each) {
    const auto with = body.number<uint32_t>();
    if (with >= message_ranks_max) return;
    report.pairs[with] = pair_of(body);
  }
  if (!last || body.failed()) return;
  known.report = report;
  known.arrived_ns = asked_ns;
}

}  // namespace rondo::net
