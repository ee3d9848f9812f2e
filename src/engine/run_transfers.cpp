// SPDX-License-Identifier: Apache-2.0
#include "src/engine/run_transfers.h"

#include <algorithm>
#include <utility>

namespace rondo {
namespace {

constexpr Step send_step{0, step_src | step_send, 0, {no_link, no_link}, {0, no_link}};
constexpr Step receive_step{0, step_recv | step_dst, 0, {0, no_link}, {no_link, no_link}};

LaneProgram program_of(bool sends, uint64_t slot_bytes) {
  LaneProgram program;
  program.steps = sends ? &send_step : &receive_step;
  program.step_count = 1;
  program.reference_safe = true;
  program.slot_elements = slot_bytes;
  return program;  // its partition is empty: begin_head() loads the one chunk
}

}  // namespace

MessageLinks::MessageLinks(std::span<const Peer> peers, PeerAccess &access, bool wake)
    : ends_(2 * peers.size()),
      access_(access),
      slot_bytes_(peers.empty() ? 0 : peers.front().outgoing.geometry.slot_bytes),
      scratch_(slot_bytes_),
      wake_(wake) {
  for (uint32_t peer = 0; peer < peers.size(); ++peer) {
    LinkEnds &receiving = ends_[2 * size_t{peer}];
    LinkEnds &sending = ends_[2 * size_t{peer} + 1];
    receiving.peer = sending.peer = peer;
    receiving.simple_in = SimpleReceiver(peers[peer].incoming);
    sending.simple_out = SimpleSender(peers[peer].outgoing);
    sending.readable_kinds = peers[peer].readable_kinds;
  }
  for (LinkEnds &ends : ends_) pointers_.push_back(&ends);
}

bool TransferQueue::is_blocked() const {
  LinkEnds &ends = *links.ends.front();
  if (!sends) return state.loaded && !ends.simple_in.can_receive();
  return state.loaded ? !ends.simple_out.can_send() : !ends.simple_out.references_returned();
}

TransferQueues::TransferQueues(std::span<Transfer> transfers, const MessageLinks &links, TransferObserver &observer)
    : slot_bytes_(links.slot_bytes()), observer_(observer) {
  copier_.function = reduce_function(RONDO_UINT8, RONDO_SUM);
  copier_.small_function = reduce_function_plain(RONDO_UINT8, RONDO_SUM);
  for (Transfer &transfer : transfers) order_.push_back(&transfer);
  const auto place = [](const Transfer *transfer) { return std::pair(transfer->peer, transfer->sends); };
  const auto before = [&](const Transfer *a, const Transfer *b) { return place(a) < place(b); };
  if (order_.size() > 1) std::stable_sort(order_.begin(), order_.end(), before);
  for (size_t first = 0, end = 0; first < order_.size(); first = end) {
    while (end < order_.size() && place(order_[end]) == place(order_[first])) ++end;
    TransferQueue &queue = queues_.emplace_back();
    queue.peer = order_[first]->peer;
    queue.sends = order_[first]->sends;
    queue.waiting = std::span(order_).subspan(first, end - first);
    queue.links = links.of(queue.peer, queue.sends);
  }
  active_count_ = queues_.size();
}

void TransferQueues::start() {
  for (TransferQueue &queue : active()) begin_head(queue);
}

void TransferQueues::begin_head(TransferQueue &queue) {
  const Transfer &head = queue.head();
  queue.state = {};
  queue.state.loaded = true;  // also of 0 bytes: they are sent as a slot without a payload
  queue.state.rest = {0, head.bytes};
  queue.buffers = {};
  queue.buffers.signature = head.signature;
  (queue.sends ? queue.buffers.send : queue.buffers.recv).data = head.data;
  observer_.begin(queue);
}

Progress TransferQueues::visit(size_t index) {
  TransferQueue &queue = queues_[index];
  const LaneProgram program = program_of(queue.sends, slot_bytes_);
  bool moved = false;
  for (uint32_t slice = 0; slice < visit_slices_max;) {
    const Progress progress = advance<SingleThread, HostSimple>(SingleThread{}, queue.state, program, queue.buffers,
                                                                copier_, queue.links);
    if (progress == Progress::failed) return progress;
    if (progress == Progress::blocked) return moved ? Progress::moved : Progress::blocked;
    moved = true;
    if (progress == Progress::moved) {
      ++slice;
      continue;
    }
    observer_.complete(queue);
    queue.waiting = queue.waiting.subspan(1);
    if (queue.waiting.empty()) {
      std::swap(queue, queues_[--active_count_]);
      return Progress::done;
    }
    begin_head(queue);
  }
  return Progress::moved;
}

Progress TransferQueues::round() {
  bool moved = false;
  for (size_t index = 0; index < active_count_;) {
    const Progress progress = visit(index);
    if (progress == Progress::failed) {
      faulty_ = index;
      return progress;
    }
    moved |= progress != Progress::blocked;
    if (progress != Progress::done) ++index;
  }
  if (done()) return Progress::done;
  return moved ? Progress::moved : Progress::blocked;
}

RunOutcome run_transfers(TransferQueues &queues, Waiter &waiter) {
  while (!queues.done()) {  // bounded by the operation's deadline, which the waiter keeps
    switch (queues.round()) {
      case Progress::failed:
        return {RunOutcome::Kind::fault, queues.faulty().state.fault, queues.faulty().peer};
      case Progress::blocked:
        if (!waiter.idle()) return {RunOutcome::Kind::stopped, Fault::none, 0};
        break;
      default:
        waiter.moved();
    }
  }
  return {};
}

}  // namespace rondo
