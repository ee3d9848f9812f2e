// SPDX-License-Identifier: Apache-2.0
// This file implements the protocols as the interpreter calls them, for a group of threads. Thread 0 moves all counters
// and polls for credit. With `simple` it also polls for full slots. A vote passes the result to the other threads. The
// ends of a link are in memory. They are written after the barrier that precedes the publication of a slice. They are
// read between the next vote and the next such barrier (interpreter.h). With `ll`, every thread reads the receiving
// ends before the vote, to poll its slots. So thread 0 advances these ends before the barrier.
//
// No thread sleeps on a device, so flags are stored by release and loaded by acquire. Buffers are exported only by
// address, to peers in the same address space.
#pragma once

#include <cstdint>

#include "cuda/kernels/operation.h"

namespace rondo::device {

/// The part of a channel that one lane uses: its links, program and scratch.
struct LaneLinks {
  DeviceLinkEnds *const *ends = nullptr;
  const LaneProgram *program = nullptr;
  std::byte *scratch = nullptr;
  uint32_t scratch_bytes = 0;
  uint32_t poll_count = 1;
  bool glances = false;  ///< in a long wait: relaxed loads first, because each acquire empties the L1 cache
  uint64_t counters[2] = {};  ///< of the slots to which this slice is posted; each thread has a copy

  [[nodiscard]] RONDO_HD DeviceLinkEnds &at(LinkIndex link) const { return *ends[link]; }
  [[nodiscard]] RONDO_HD std::byte *operand(uint32_t which) const { return scratch + which * scratch_bytes; }
  [[nodiscard]] RONDO_HD std::byte *result() const { return scratch + 2 * scratch_bytes; }
};

/// Calls ready() up to poll_count times, and returns true as soon as ready() does. Each thread polls by itself.
template <class Ready>
[[nodiscard]] RONDO_HD bool poll(uint32_t poll_count, const Ready &ready) {
  for (uint32_t look = 0; look < poll_count; ++look)
    if (ready()) return true;
  return false;
}

/// Returns failed if any thread knows of a fault in an operand's slot, otherwise blocked. `first` and `second` say
/// which slot has the fault. Only thread 0's `fault` is reported.
template <Group G>
[[nodiscard]] RONDO_HD Progress blocked_or_failed(G group, const Step &step, bool first, bool second, Fault fault,
                                                  LaneState &state) {
  if (!group.any(first || second)) return Progress::blocked;
  state.fault = fault;
  state.fault_link = step.recv_link[group.any(first) ? 0 : 1];
  return Progress::failed;
}

struct GroupSimple {
  template <Group G>
  RONDO_HD static Progress wait(G group, LaneLinks &links, const Step &step, uint64_t bytes, uint32_t signature,
                                LaneState &state) {
    Fault faults[2] = {Fault::none, Fault::none};
    const bool ready = group.rank() != 0 || look(links, step, bytes, signature, faults);
    if (!any_at<memory::Site::simple_ready_vote>(group, !ready)) return Progress::moved;
    const bool first = faults[0] != Fault::none, second = faults[1] != Fault::none;
    return blocked_or_failed(group, step, first, second, first ? faults[0] : faults[1], state);
  }

  template <Group G>
  RONDO_HD static Progress fetch(G group, LaneLinks &links, LinkIndex link, uint32_t, uint64_t bytes,
                                 uint32_t signature, const std::byte *&operand, Fault &fault) {
    const SimpleReceiver &in = links.at(link).simple_in;
    const SlotHeader &header = in.header();  // read by all threads: thread 0 acquired it, and the vote passed that on
    if (group.rank() == 0) memory::note(memory::Access::load, &header, sizeof header - sizeof header.sequence);
    fault = fault_of(header, bytes, signature);
    if (fault != Fault::none) return Progress::failed;
    const bool in_slot = static_cast<PayloadKind>(header.kind) == PayloadKind::in_slot;
    operand = in_slot ? in.payload() : reinterpret_cast<const std::byte *>(header.address);
    return Progress::moved;
  }

  RONDO_HD static std::byte *stage(LaneLinks &links, LinkIndex link, uint32_t) {
    return links.at(link).simple_out.payload();
  }
  RONDO_HD static uint32_t readable_kinds(LaneLinks &links, LinkIndex link) { return links.at(link).readable_kinds; }

  template <Group G>
  RONDO_HD static void post(G group, LaneLinks &links, LinkIndex link, uint32_t, uint64_t bytes, uint32_t signature,
                            PayloadKind kind, const MemoryHandle *, const std::byte *exported) {
    if (group.rank() != 0) return;
    SlotHeader fields;
    fields.signature = signature;
    fields.bytes = bytes;
    fields.kind = static_cast<uint32_t>(kind);
    if (kind != PayloadKind::in_slot) fields.address = reinterpret_cast<uint64_t>(exported);
    links.at(link).simple_out.fill(fields);
  }

  template <Group G>
  RONDO_HD static void release(G, LaneLinks &, LinkIndex) {}

  /// Publishes everything that the step posts and releases. On a device one fence suffices, because all reads and
  /// writes of the slice precede it.
  template <Group G>
  RONDO_HD static void publish(G group, LaneLinks &links, const Step &step) {
    if (group.rank() != 0) return;
    memory::Releases releases;
    for (const LinkIndex link : step.send_link)
      if ((step.flags & step_send) != 0 && link != no_link) links.at(link).simple_out.post_filled(releases);
    for (const LinkIndex link : step.recv_link)
      if ((step.flags & step_recv) != 0 && link != no_link) links.at(link).simple_in.release(releases);
  }

  /// Says whether peers have read all payloads that this lane exported. Only one lane sends on a directed link, so only
  /// that lane waits for the link.
  template <Group G>
  RONDO_HD static bool drained(G group, LaneLinks &links) {
    bool exported = false;
    for (uint32_t step = 0; group.rank() == 0 && step < links.program->step_count; ++step)
      for (const LinkIndex link : links.program->steps[step].send_link)
        exported |= link != no_link && !links.at(link).simple_out.references_returned(false);
    return !group.any(exported);
  }

 private:
  /// Returns whether everything for which the step waits has arrived; thread 0 calls it. If something is missing,
  /// `faults` has the faults of full slots. So a disagreeing peer is named even if another peer never arrives.
  [[nodiscard]] RONDO_HD static bool look(LaneLinks &links, const Step &step, uint64_t bytes, uint32_t signature,
                                          Fault (&faults)[2]) {
    SimpleSender *to[2] = {};
    SimpleReceiver from[2];  // copies, since each poll clobbers memory, and copies need no new load
    bool waits[2] = {};
    RONDO_UNROLL
    for (uint32_t which = 0; which < 2; ++which) {
      if ((step.flags & step_send) != 0 && step.send_link[which] != no_link)
        to[which] = &links.at(step.send_link[which]).simple_out;
      waits[which] = (step.flags & step_recv) != 0 && step.recv_link[which] != no_link;
      if (waits[which]) from[which] = links.at(step.recv_link[which]).simple_in;
    }
    const auto has_credit = [&](uint32_t which) {
      return to[which] == nullptr || ((!links.glances || to[which]->may_send()) && to[which]->can_send(false));
    };
    const auto is_full = [&](uint32_t which) {
      return !waits[which] || ((!links.glances || from[which].may_receive()) && from[which].can_receive(false));
    };
    bool can_send = false;
    const bool ready = poll(links.poll_count, [&] {
      can_send = can_send || (has_credit(0) && has_credit(1));
      return can_send && is_full(0) && is_full(1);
    });
    if (ready) return true;
    RONDO_UNROLL
    for (uint32_t which = 0; which < 2; ++which)
      if (waits[which] && is_full(which)) faults[which] = fault_of(from[which].header(), bytes, signature);
    return false;
  }

  /// Returns the fault of a full slot.
  [[nodiscard]] RONDO_HD static Fault fault_of(const SlotHeader &header, uint64_t bytes, uint32_t signature) {
    const auto kind = static_cast<PayloadKind>(header.kind);
    if (header.signature != signature) return Fault::foreign_slot;
    if (header.bytes != bytes) return Fault::wrong_size;
    return kind != PayloadKind::in_slot && kind != PayloadKind::address ? Fault::unreadable : Fault::none;
  }
};

/// The protocol ll, whose data announces itself. Payloads are unpacked into scratch, and packed from there.
struct GroupLl {
  /// Polls this thread's part of all operands. One vote covers them all. In a long wait, thread 0 polls alone until
  /// may_move() is true.
  template <Group G>
  RONDO_HD static Progress wait(G group, LaneLinks &links, const Step &step, uint64_t bytes, uint32_t signature,
                                LaneState &state) {
    if (links.glances && group.any(group.rank() == 0 && !may_move(links, step, signature))) return Progress::blocked;
    const bool can_send = group.rank() != 0 || poll(links.poll_count, [&] {
      return all_send_links(step, [&](LinkIndex to) { return links.at(to).ll_out.can_send(false); });
    });
    LlOutcome seen[2] = {LlOutcome::full, LlOutcome::full};
    if ((step.flags & step_recv) != 0) look(group, links, step, bytes, signature, seen);
    const bool full = seen[0] == LlOutcome::full && seen[1] == LlOutcome::full;
    if (!any_at<memory::Site::ll_ready_vote>(group, !can_send || !full)) return Progress::moved;
    const bool first = seen[0] == LlOutcome::foreign, second = seen[1] == LlOutcome::foreign;
    return blocked_or_failed(group, step, first, second, Fault::foreign_slot, state);
  }

  /// Returns the payload, which was copied out of its slot. So thread 0 releases the slot at once.
  template <Group G>
  RONDO_HD static Progress fetch(G group, LaneLinks &links, LinkIndex link, uint32_t which, uint64_t, uint32_t,
                                 const std::byte *&operand, Fault &) {
    if (group.rank() == 0) links.at(link).ll_in.release_by_group();
    operand = links.operand(which);
    return Progress::moved;
  }

  /// Returns one piece of scratch for all links of a step. The result is packed from there into each slot.
  RONDO_HD static std::byte *stage(LaneLinks &links, LinkIndex link, uint32_t which) {
    links.counters[which] = links.at(link).ll_out.counter();
    return links.result();
  }
  RONDO_HD static uint32_t readable_kinds(LaneLinks &, LinkIndex) { return 0; }

  template <Group G>
  RONDO_HD static void post(G group, LaneLinks &links, LinkIndex link, uint32_t which, uint64_t bytes,
                            uint32_t signature, PayloadKind, const MemoryHandle *, const std::byte *) {
    DeviceLinkEnds &ends = links.at(link);
    ends.ll_out.post_by_group(group, links.counters[which], links.result(), bytes, signature, ends.orders != 0);
  }

  template <Group G>
  RONDO_HD static void release(G, LaneLinks &, LinkIndex) {}

  template <Group G>
  RONDO_HD static void publish(G, LaneLinks &, const Step &) {}

  /// Waits until all threads have posted. Then thread 0 reports the end.
  template <Group G>
  RONDO_HD static bool drained(G group, LaneLinks &) {
    group.sync();
    return true;
  }

 private:
  /// Says, by relaxed loads, whether all slots and credit seem to be there, or whether a slot seems to be foreign.
  [[nodiscard]] RONDO_HD static bool may_move(LaneLinks &links, const Step &step, uint32_t signature) {
    bool ready = true, foreign = false;
    RONDO_KEEP_LOOP
    for (uint32_t which = 0; which < 2; ++which) {
      if ((step.flags & step_send) != 0 && step.send_link[which] != no_link)
        ready = links.at(step.send_link[which]).ll_out.may_send() && ready;
      if ((step.flags & step_recv) == 0 || step.recv_link[which] == no_link) continue;
      const LlOutcome seen = links.at(step.recv_link[which]).ll_in.glance(signature);
      ready = ready && seen == LlOutcome::full;
      foreign = foreign || seen == LlOutcome::foreign;
    }
    return ready || foreign;
  }

  template <Group G>
  RONDO_HD static void look(G group, LaneLinks &links, const Step &step, size_t bytes, uint32_t signature,
                            LlOutcome (&seen)[2]) {
    LlReceiver::Slot slots[2];
    RONDO_UNROLL
    for (uint32_t which = 0; which < 2; ++which) {
      if (step.recv_link[which] == no_link) continue;
      const DeviceLinkEnds &ends = links.at(step.recv_link[which]);
      slots[which] = ends.ll_in.next_slot(links.operand(which), signature, ends.orders != 0);
    }
    LlReceiver::look_by_group(group, slots, bytes, links.poll_count, seen);
  }
};

}  // namespace rondo::device
