// SPDX-License-Identifier: Apache-2.0
// This file is the host's side of links: the ends of connections, and the protocols as the interpreter calls them.
//
// A protocol P has the functions below. All threads of the group that runs a lane call them.
// For all links of a step: P::wait returns moved if results can be sent, otherwise blocked or failed. In a group whose
// threads wait for the operands together, moved also means that the operands have arrived. P::post and P::release may
// delay their stores, and P::publish makes the delayed stores.
// For one link: P::fetch returns moved (`operand` can be read), blocked or failed. P::stage returns where the step
// writes its result. P::readable_kinds returns the kinds of exported buffers that the peer can read. P::post sends the
// result, and P::release frees the operand's slot.
// For all links of the lane: P::drained returns whether the peers no longer read this rank's buffers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "src/engine/reduction/reduction.h"
#include "src/engine/slot_writer.h"
#include "src/proto/interpreter.h"
#include "src/proto/ll.h"
#include "src/proto/peer_access.h"
#include "src/proto/simple.h"

namespace rondo {

/// This rank's ends of the two connections with one peer on one channel. They live as long as the communicator.
struct LinkEnds {
  uint32_t peer = 0;
  uint32_t readable_kinds = 0;  ///< bits of PayloadKind: the kinds of exported buffers that the peer can read
  SimpleSender simple_out;
  SimpleReceiver simple_in;
  LlSender ll_out;
  LlReceiver ll_in;
  SlotWriter slot_writer;  ///< for payloads that are only copied to simple_out
};

/// An additional value of PayloadKind, for messages between ranks of one host. The payload replaces the header's fields
/// `inode` to `region`, so a message moves only one cache line. Kernels and collectives do not use this value.
inline constexpr auto payload_in_header = static_cast<PayloadKind>(4);
inline constexpr size_t header_payload_offset = offsetof(SlotHeader, inode);
inline constexpr uint64_t header_payload_bytes = 32;
static_assert(offsetof(SlotHeader, region) + sizeof(SlotHeader::region) - header_payload_offset ==
              header_payload_bytes);

[[nodiscard]] inline const std::byte *payload_of(const SlotHeader &header) {
  return reinterpret_cast<const std::byte *>(&header) + header_payload_offset;
}
[[nodiscard]] inline std::byte *payload_of(SlotHeader &header) {
  return reinterpret_cast<std::byte *>(&header) + header_payload_offset;
}

/// Memory for payloads that cannot be used in place: two operands and one result.
class Scratch {
 public:
  explicit Scratch(size_t bytes) : bytes_(bytes), memory_(new std::byte[3 * bytes]) {}
  [[nodiscard]] std::byte *operand(uint32_t which) const { return memory_.get() + which * bytes_; }
  [[nodiscard]] std::byte *result() const { return memory_.get() + 2 * bytes_; }

 private:
  size_t bytes_;
  std::unique_ptr<std::byte[]> memory_;
};

/// The links of one channel's schedule. A link's index is its index in `ends`.
struct HostLinks {
  std::span<LinkEnds *const> ends;
  PeerAccess *peers = nullptr;
  const Scratch *scratch = nullptr;
  bool wake = false;  ///< true if ranks of this communicator may sleep
};

struct HostSimple {
  static Progress wait(SingleThread, HostLinks &links, const Step &step, uint64_t, uint32_t, LaneState &) {
    const auto can_send = [&](LinkIndex to) { return links.ends[to]->simple_out.can_send(); };
    return all_send_links(step, can_send) ? Progress::moved : Progress::blocked;
  }

  static Progress fetch(SingleThread, HostLinks &links, LinkIndex link, uint32_t which, uint64_t bytes,
                        uint32_t signature, const std::byte *&operand, Fault &fault) {
    const LinkEnds &ends = *links.ends[link];
    if (!ends.simple_in.can_receive()) return Progress::blocked;
    const SlotHeader &header = ends.simple_in.header();
    fault = header.signature != signature ? Fault::foreign_slot
            : header.bytes != bytes       ? Fault::wrong_size
                                          : Fault::none;
    if (fault != Fault::none) return Progress::failed;
    const auto kind = static_cast<PayloadKind>(header.kind);
    operand = kind == PayloadKind::in_slot ? ends.simple_in.payload()
              : kind == payload_in_header && bytes <= header_payload_bytes
                  ? payload_of(header)
                  : links.peers->import_payload(ends.peer, header, links.scratch->operand(which));
    if (operand != nullptr) return Progress::moved;
    fault = Fault::unreadable;
    return Progress::failed;
  }

  static std::byte *stage(HostLinks &links, LinkIndex link, uint32_t) { return links.ends[link]->simple_out.payload(); }

  static uint32_t readable_kinds(HostLinks &links, LinkIndex link) { return links.ends[link]->readable_kinds; }

  /// Posts a slot. If `kind` is not in_slot, the payload is at `exported`, in the exported buffer of `handle`.
  static void post(SingleThread, HostLinks &links, LinkIndex link, uint32_t, uint64_t bytes, uint32_t signature,
                   PayloadKind kind, const MemoryHandle *handle, const std::byte *exported) {
    SlotHeader fields;
    fields.signature = signature;
    fields.bytes = bytes;
    fields.kind = static_cast<uint32_t>(kind);
    if (kind != PayloadKind::in_slot) {
      fields.inode = handle->inode;
      fields.region = handle->region;
      fields.address = kind == PayloadKind::mapped
                           ? handle->region_offset + static_cast<uint64_t>(exported - handle->first)
                           : reinterpret_cast<uint64_t>(exported);
      fields.region_bytes = handle->region_bytes;
      fields.descriptor = handle->descriptor;
    }
    links.ends[link]->simple_out.post(fields, links.wake);
    if (links.wake) links.peers->wake(links.ends[link]->peer);
  }

  static void release(SingleThread, HostLinks &links, LinkIndex link) {
    links.ends[link]->simple_in.release(links.wake);
    if (links.wake) links.peers->wake(links.ends[link]->peer);
  }

  static void publish(SingleThread, HostLinks &, const Step &) {}

  static bool drained(SingleThread, HostLinks &links) {
    for (LinkEnds *const ends : links.ends)
      if (!ends->simple_out.references_returned()) return false;
    return true;
  }
};

struct HostLl {
  static Progress wait(SingleThread, HostLinks &links, const Step &step, uint64_t, uint32_t, LaneState &) {
    const auto can_send = [&](LinkIndex to) { return links.ends[to]->ll_out.can_send(); };
    return all_send_links(step, can_send) ? Progress::moved : Progress::blocked;
  }

  static Progress fetch(SingleThread, HostLinks &links, LinkIndex link, uint32_t which, uint64_t bytes,
                        uint32_t signature, const std::byte *&operand, Fault &fault) {
    std::byte *const payload = links.scratch->operand(which);
    const LlOutcome outcome = links.ends[link]->ll_in.receive(payload, bytes, signature);
    if (outcome == LlOutcome::stale) return Progress::blocked;
    operand = payload;
    if (outcome == LlOutcome::full) return Progress::moved;
    fault = Fault::foreign_slot;
    return Progress::failed;
  }

  /// Returns one buffer for all links of a step. The result is packed from that buffer into each slot.
  static std::byte *stage(HostLinks &links, LinkIndex, uint32_t) { return links.scratch->result(); }
  static uint32_t readable_kinds(HostLinks &, LinkIndex) { return 0; }

  static void post(SingleThread, HostLinks &links, LinkIndex link, uint32_t, uint64_t bytes, uint32_t signature,
                   PayloadKind, const MemoryHandle *, const std::byte *) {
    links.ends[link]->ll_out.post(links.scratch->result(), bytes, signature, links.wake);
    if (links.wake) links.peers->wake(links.ends[link]->peer);
  }

  static void release(SingleThread, HostLinks &links, LinkIndex link) {
    links.ends[link]->ll_in.release(links.wake);
    if (links.wake) links.peers->wake(links.ends[link]->peer);
  }

  static void publish(SingleThread, HostLinks &, const Step &) {}
  static bool drained(SingleThread, HostLinks &) { return true; }
};

/// The arguments of a reduction. The interpreter makes them with `{}` in every round, even if no slice has arrived. So
/// this constructor does not clear the arrays: clearing takes longer than reducing a small slice.
struct HostReductionArgs : ReductionArgs {
  HostReductionArgs() {}  // NOLINT: a defaulted constructor would let `{}` clear the arrays
};

/// The interpreter's reducer on the host.
struct HostReducer {
  using Args = HostReductionArgs;
  ReductionFunction function = nullptr;
  ReductionFunction small_function = nullptr;  ///< gives the same result, and is faster for a few elements
  uint32_t divisor = 0;                      ///< number of ranks for avg, otherwise 0

  void operator()(SingleThread, const Args &args) const { function(args); }
};

/// The interpreter's reducer for steps that only copy one operand.
struct HostCopier {
  SlotWriter *writer = nullptr;  ///< copies a payload into its slot; null if the step receives

  using Args = HostReductionArgs;
  static constexpr uint32_t divisor = 0;

  void operator()(SingleThread, const Args &args) const {
    if (args.count <= header_payload_bytes) copy_short(args.outputs[0], args.inputs[0], args.count);
    else if (writer != nullptr) writer->write(args.outputs[0], args.inputs[0], args.count);
    else std::memcpy(args.outputs[0], args.inputs[0], args.count);
  }

 private:
  /// Copies the first and the last bytes, in pieces of a fixed size, which may overlap. A call of memcpy() is slower.
  template <size_t piece>
  static void copy_ends(std::byte *to, const std::byte *from, size_t bytes) {
    std::array<std::byte, piece> first, last;
    std::memcpy(&first, from, piece);
    std::memcpy(&last, from + bytes - piece, piece);
    std::memcpy(to, &first, piece);
    std::memcpy(to + bytes - piece, &last, piece);
  }
  /// Copies a payload that fits into a header.
  static void copy_short(std::byte *to, const std::byte *from, size_t bytes) {
    static_assert(header_payload_bytes <= 32);
    if (bytes >= 16) return copy_ends<16>(to, from, bytes);
    if (bytes >= 8) return copy_ends<8>(to, from, bytes);
    if (bytes >= 4) return copy_ends<4>(to, from, bytes);
    for (size_t at = 0; at < bytes; ++at) to[at] = from[at];
  }
};

}  // namespace rondo
