// SPDX-License-Identifier: Apache-2.0
// The protocols as the interpreter calls them, by a group of threads. Only thread 0 of a group looks at flags and moves
// counters; it tells the others by a vote. So the ends of a link, which lie in memory, are written behind the barrier
// that precedes a slice's publication and read between the next vote and the next such barrier (interpreter.h).
//
// Nobody sleeps on a device: flags are acquire and release. Buffers are exported by address only, to peers in the same
// address space.
#pragma once

#include <cstdint>

#include "cuda/kernels/operation.h"

namespace rondo::device {

/// What a lane has of its channel.
struct LaneLinks {
  DeviceLinkEnds *const *ends = nullptr;
  const LaneProgram *program = nullptr;
  std::byte *scratch = nullptr;
  uint32_t scratch_bytes = 0;
  uint32_t poll_count = 1;

  [[nodiscard]] RONDO_HD DeviceLinkEnds &at(LinkIndex link) const { return *ends[link]; }
  [[nodiscard]] RONDO_HD std::byte *operand(uint32_t which) const { return scratch + which * scratch_bytes; }
  [[nodiscard]] RONDO_HD std::byte *result() const { return scratch + 2 * scratch_bytes; }
};

/// By one thread: true as soon as ready() is, looking poll_count times.
template <class Ready>
[[nodiscard]] RONDO_HD bool poll(uint32_t poll_count, const Ready &ready) {
  for (uint32_t look = 0; look < poll_count; ++look) {
    memory::Attempt attempt;
    if (!ready()) continue;
    attempt.keep();
    return true;
  }
  return false;
}

struct GroupSimple {
  template <Group G>
  RONDO_HD static bool can_send(G group, LaneLinks &links, LinkIndex link) {
    return group.rank() != 0 || poll(links.poll_count, [&] { return links.at(link).simple_out.can_send(false); });
  }

  template <Group G>
  RONDO_HD static Progress fetch(G group, LaneLinks &links, LinkIndex link, uint32_t, uint64_t bytes,
                                 uint32_t signature, const std::byte *&operand, Fault &fault) {
    const SimpleReceiver &in = links.at(link).simple_in;
    const bool full = group.rank() != 0 || poll(links.poll_count, [&] { return in.can_receive(false); });
    if (any_at<memory::Site::simple_fetch_vote>(group, !full)) return Progress::blocked;
    const SlotHeader &header = in.header();  // read by all: what thread 0 acquired, the vote passed on
    if (group.rank() == 0) memory::note(memory::Access::load, &header, sizeof header - sizeof header.sequence);
    const auto kind = static_cast<PayloadKind>(header.kind);
    fault = header.signature != signature                                  ? Fault::foreign_slot
            : header.bytes != bytes                                        ? Fault::wrong_size
            : kind != PayloadKind::in_slot && kind != PayloadKind::address ? Fault::unreadable
                                                                           : Fault::none;
    if (fault != Fault::none) return Progress::failed;
    operand = kind == PayloadKind::in_slot ? in.payload() : reinterpret_cast<const std::byte *>(header.address);
    return Progress::moved;
  }

  RONDO_HD static std::byte *stage(LaneLinks &links, LinkIndex link) { return links.at(link).simple_out.payload(); }
  RONDO_HD static uint32_t readable_kinds(LaneLinks &links, LinkIndex link) { return links.at(link).readable_kinds; }

  template <Group G>
  RONDO_HD static void post(G group, LaneLinks &links, LinkIndex link, uint64_t bytes, uint32_t signature,
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

  /// All that the step posts and releases: by one fence on a device, since all of it has been written and read.
  template <Group G>
  RONDO_HD static void publish(G group, LaneLinks &links, const Step &step) {
    if (group.rank() != 0) return;
    memory::Releases releases;
    for (const LinkIndex link : step.send_link)
      if ((step.flags & step_send) != 0 && link != no_link) links.at(link).simple_out.post_filled(releases);
    for (const LinkIndex link : step.recv_link)
      if ((step.flags & step_recv) != 0 && link != no_link) links.at(link).simple_in.release(releases);
  }

  /// A directed link is sent on by one lane only, and so is waited for by that one only.
  template <Group G>
  RONDO_HD static bool drained(G group, LaneLinks &links) {
    bool exported = false;
    for (uint32_t step = 0; group.rank() == 0 && step < links.program->step_count; ++step)
      for (const LinkIndex link : links.program->steps[step].send_link)
        exported |= link != no_link && !links.at(link).simple_out.references_returned(false);
    return !group.any(exported);
  }
};

/// The protocols whose data announces itself: payloads pass through scratch, and are unpacked and packed there. Ends:
/// which ends of a link.
template <class Ends>
struct GroupOfFlaggedData {
  template <Group G>
  RONDO_HD static bool can_send(G group, LaneLinks &links, LinkIndex link) {
    return group.rank() != 0 || poll(links.poll_count, [&] { return Ends::can_send(links.at(link)); });
  }

  template <Group G>
  RONDO_HD static Progress fetch(G group, LaneLinks &links, LinkIndex link, uint32_t which, uint64_t bytes,
                                 uint32_t signature, const std::byte *&operand, Fault &fault) {
    std::byte *const payload = links.operand(which);
    const LlOutcome outcome =
        Ends::receive(group, links.at(link), payload, bytes, signature, links.poll_count);
    if (outcome == LlOutcome::stale) return Progress::blocked;
    operand = payload;
    if (outcome == LlOutcome::full) return Progress::moved;
    fault = Fault::foreign_slot;
    return Progress::failed;
  }

  /// One place for all links of a step: the result is packed from there into each slot.
  RONDO_HD static std::byte *stage(LaneLinks &links, LinkIndex) { return links.result(); }
  RONDO_HD static uint32_t readable_kinds(LaneLinks &, LinkIndex) { return 0; }

  template <Group G>
  RONDO_HD static void post(G group, LaneLinks &links, LinkIndex link, uint64_t bytes, uint32_t signature, PayloadKind,
                            const MemoryHandle *, const std::byte *) {
    Ends::post(group, links.at(link), links.result(), bytes, signature);
  }

  template <Group G>
  RONDO_HD static void release(G group, LaneLinks &links, LinkIndex link) {
    if (group.rank() == 0) Ends::release(links.at(link));
  }

  template <Group G>
  RONDO_HD static void publish(G, LaneLinks &, const Step &) {}

  template <Group G>
  RONDO_HD static bool drained(G, LaneLinks &) {
    return true;
  }
};

struct LlEnds {
  [[nodiscard]] RONDO_HD static bool can_send(DeviceLinkEnds &ends) { return ends.ll_out.can_send(false); }
  template <Group G>
  RONDO_HD static void post(G group, DeviceLinkEnds &ends, const std::byte *payload, size_t bytes, uint32_t signature) {
    ends.ll_out.post_by_group(group, payload, bytes, signature, ends.orders != 0);
  }
  template <Group G>
  [[nodiscard]] RONDO_HD static LlOutcome receive(G group, DeviceLinkEnds &ends, std::byte *payload, size_t bytes,
                                                  uint32_t signature, uint32_t poll_count) {
    return ends.ll_in.receive_by_group(group, payload, bytes, signature, poll_count, ends.orders != 0);
  }
  RONDO_HD static void release(DeviceLinkEnds &ends) { ends.ll_in.release_by_group(); }
};
using GroupLl = GroupOfFlaggedData<LlEnds>;

struct Ll128Ends {
  [[nodiscard]] RONDO_HD static bool can_send(DeviceLinkEnds &ends) { return ends.ll128_out.can_send(); }
  template <Group G>
  RONDO_HD static void post(G group, DeviceLinkEnds &ends, const std::byte *payload, size_t bytes, uint32_t signature) {
    ends.ll128_out.post_by_group(group, payload, bytes, signature);
  }
  template <Group G>
  [[nodiscard]] RONDO_HD static LlOutcome receive(G group, DeviceLinkEnds &ends, std::byte *payload, size_t bytes,
                                                  uint32_t signature, uint32_t poll_count) {
    return ends.ll128_in.receive_by_group(group, payload, bytes, signature, poll_count);
  }
  RONDO_HD static void release(DeviceLinkEnds &ends) { ends.ll128_in.release(); }
};
using GroupLl128 = GroupOfFlaggedData<Ll128Ends>;

}  // namespace rondo::device
