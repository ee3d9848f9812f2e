// SPDX-License-Identifier: Apache-2.0
#include "src/engine/run_transfers.h"

#include <algorithm>
#include <utility>

#include "src/base/arithmetic.h"
#include "src/plan/block_lanes.h"

namespace rondo {
namespace {

LaneProgram program_of(bool sends, uint64_t slot_bytes) {
  LaneProgram program;
  const std::span<const Step> steps = steps_of(BlockLane{0, sends, !sends});
  program.steps = steps.data();
  program.step_count = static_cast<uint32_t>(steps.size());
  program.reference_safe = true;
  program.slot_elements = slot_bytes;
  return program;  // its partition is empty, because begin_head() loads the only chunk
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
    outgoing_.push_back(peers[peer].outgoing);
  }
  for (LinkEnds &ends : ends_) pointers_.push_back(&ends);
}

bool TransferQueue::is_blocked() const {
  if (!begun) return false;
  LinkEnds &ends = *links.ends.front();
  if (!sends) return state.loaded && !ends.simple_in.can_receive();
  return state.loaded ? !ends.simple_out.can_send() : !ends.simple_out.references_returned();
}

TransferQueues::TransferQueues(const MessageLinks &links)
    : programs_{program_of(false, links.slot_bytes()), program_of(true, links.slot_bytes())},
      queues_(2 * size_t{links.peer_count()}),
      active_(queues_.size()) {
  for (size_t index = 0; index < queues_.size(); ++index) {
    queues_[index].peer = static_cast<uint32_t>(index / 2);
    queues_[index].sends = index % 2 == 1;
    static_cast<HostLinks &>(queues_[index].links) = links.of(queues_[index].peer, queues_[index].sends);
    queues_[index].links.outgoing = links.outgoing(queues_[index].peer);
  }
}

void TransferQueues::load(std::span<Transfer> transfers) {
  for (TransferQueue *const queue : active()) queue->first = nullptr;
  active_count_ = 0;
  size_t send_count = 0;
  for (Transfer &transfer : transfers) {
    TransferQueue &queue = queues_[2 * size_t{transfer.peer} + (transfer.sends ? 1 : 0)];
    if (queue.first == nullptr) {
      queue.first = &transfer;
      queue.begun = false;
      queue.record = 0;
      active_[active_count_++] = &queue;
      if (queue.sends) std::swap(active_[send_count++], active_[active_count_ - 1]);  // sends go first
    } else {
      queue.last->next = &transfer;
    }
    queue.last = &transfer;
    transfer.next = nullptr;
  }
}

void TransferQueues::begin_head(TransferQueue &queue) {
  const Transfer &head = queue.head();
  queue.begun = true;
  queue.state = {};
  queue.state.loaded = true;  // even for 0 bytes, which are sent as a slot without a payload
  queue.state.rest = {0, head.bytes};
  queue.buffers.signature = head.signature;
  (queue.sends ? queue.buffers.send : queue.buffers.recv).data = head.data;
  queue.buffers.send.handle.exported = false;
  observer_->begin(queue);
  queue.links.exported = queue.buffers.send.handle.exported;
  // A payload in the header needs a peer that shares the FIFO's memory. Such a peer can read exported buffers.
  queue.links.in_header = queue.sends && !queue.links.exported && head.bytes <= header_payload_bytes &&
                          queue.links.ends.front()->readable_kinds != 0;
}

size_t TransferQueues::late_head() {
  const auto all = active();
  const auto blocked = std::find_if(all.begin(), all.end(), [](const auto *each) { return each->is_blocked(); });
  return blocked != all.end() ? static_cast<size_t>(blocked - all.begin()) : 0;
}

SlotUse TransferQueues::posted_slots(size_t index) const {
  const TransferQueue &queue = *active_[index];
  const ConnectionGeometry &geometry = queue.links.outgoing.geometry;
  const uint64_t slot_bytes = programs_[1].slot_elements;
  const uint64_t posted_bytes = queue.head().bytes - queue.state.rest.count;
  const bool all = !queue.state.loaded;  // a message of 0 bytes has a slot, too
  return {all ? std::max<uint64_t>(1, ceil_div(posted_bytes, slot_bytes)) : posted_bytes / slot_bytes, slot_bytes,
          geometry.slot_count};
}

Progress TransferQueues::visit(size_t index) {
  TransferQueue &queue = *active_[index];
  const LaneProgram &program = programs_[queue.sends ? 1 : 0];
  const HostCopier copier{queue.sends ? &queue.links.ends.front()->slot_writer : nullptr};
  if (!queue.begun) begin_head(queue);
  bool moved = false;
  for (uint32_t slice = 0; slice < visit_slices_max;) {
    const Progress progress = advance<SingleThread, MessageSimple>(SingleThread{}, queue.state, program, queue.buffers,
                                                                   copier, queue.links);
    if (progress == Progress::failed) return progress;
    if (progress == Progress::blocked) return moved ? Progress::moved : Progress::blocked;
    moved = true;
    if (progress == Progress::moved) {
      ++slice;
      continue;
    }
    observer_->complete(queue);
    queue.first = queue.first->next;
    if (queue.first == nullptr) {
      std::swap(active_[index], active_[--active_count_]);
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

RunOutcome run_transfers(TransferQueues &queues, Waiter &waiter, uint32_t poll_count) {
  size_t polls = 0;
  while (!queues.done()) {  // ends at the operation's deadline, which the waiter checks
    switch (queues.round()) {
      case Progress::failed:
        return {RunOutcome::Kind::fault, queues.faulty().state.fault, queues.faulty().peer};
      case Progress::blocked:
        polls += queues.active_count();
        if (polls >= poll_count && !waiter.idle()) return {RunOutcome::Kind::stopped, Fault::none, 0};
        break;
      default:
        polls = 0;
        waiter.moved();
    }
  }
  return {};
}

}  // namespace rondo
