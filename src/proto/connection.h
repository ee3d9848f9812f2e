// SPDX-License-Identifier: Apache-2.0
// A connection is the memory of one directed link between two ranks on one channel. It holds one FIFO for each
// protocol. Each FIFO has its own counters, which stay contiguous even if the other protocol is used in between.
//
// Layout: offsets are multiples of 64, and a cache line has one writer.
//
//     simple head      64 B    written by the receiver   slots consumed
//     ll head          64 B    written by the receiver   (see ConnectionView::credit)
//     simple headers   slot_count * 64 B                 written by the sender; see simple.h
//     ll slots         slot_count * ll_stride            written by the sender; see ll.h
//     simple slots     slot_count * slot_bytes           written by the sender
//
// Counters grow from 0, and slot = counter & (slot_count - 1). New memory is zero, which means that no slot was sent.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/host_device.h"

namespace rondo {

inline constexpr size_t cache_line_bytes = 64;

/// A counter with a cache line of its own.
struct alignas(cache_line_bytes) PaddedCounter {
  uint64_t value = 0;
};
static_assert(sizeof(PaddedCounter) == cache_line_bytes);

/// The header of a payload of the protocol `simple`. `sequence` is the flag that says that the data is present.
struct alignas(cache_line_bytes) SlotHeader {
  uint64_t sequence = 0;   ///< counter + 1 once the slot is full
  uint32_t signature = 0;  ///< digest of the sender's operations up to this one; other operations have other digests
  uint32_t kind = 0;       ///< a PayloadKind
  uint64_t bytes = 0;      ///< size of the payload
  uint64_t inode = 0;      ///< mapped: inode of the file behind the sender's region
  uint64_t address = 0;    ///< offset in the region if mapped, otherwise the sender's address
  uint64_t region_bytes = 0;
  int32_t descriptor = -1;  ///< mapped: the sender's descriptor of that file, or a number reused by now
  uint32_t region = 0;      ///< mapped: low half of the region's number
};
static_assert(sizeof(SlotHeader) == cache_line_bytes);

/// The place where a slot's payload lies.
enum class PayloadKind : uint32_t {
  in_slot = 0,
  address = 1,  ///< in the sender's buffer, in the same process
  mapped = 2,   ///< in the sender's buffer, in a region that the receiver can map
  process = 3,  ///< in the sender's buffer, to be read by cross-memory attach
};

/// Returns the bit of a kind in a set of kinds. No set has in_slot, because every rank can read slots.
[[nodiscard]] RONDO_HD constexpr uint32_t kind_bit(PayloadKind kind) {
  return kind == PayloadKind::in_slot ? 0 : 1u << static_cast<uint32_t>(kind);
}

struct ConnectionGeometry {
  uint32_t slot_count = 4;        ///< a power of two, at least 2
  uint32_t slot_bytes = 65536;    ///< payload of a `simple` slot, a multiple of 64
  uint32_t ll_slot_bytes = 2048;  ///< payload of an `ll` slot, a multiple of 4

  /// Returns the bytes of an ll slot: a unit of 8 bytes for each 4 bytes of payload, in whole pairs. A slot whose units
  /// would fill whole lines gets one line more. If not, slots would be a power of two apart, and share cache sets.
  [[nodiscard]] RONDO_HD size_t ll_stride() const {
    return (8 + size_t{ll_slot_bytes} * 2 + cache_line_bytes - 1) / cache_line_bytes * cache_line_bytes;
  }
  [[nodiscard]] RONDO_HD size_t headers_offset() const { return 2 * cache_line_bytes; }
  [[nodiscard]] RONDO_HD size_t ll_offset() const { return headers_offset() + size_t{slot_count} * sizeof(SlotHeader); }
  [[nodiscard]] RONDO_HD size_t slots_offset() const { return ll_offset() + slot_count * ll_stride(); }
  [[nodiscard]] RONDO_HD size_t bytes() const { return slots_offset() + size_t{slot_count} * slot_bytes; }

  bool operator==(const ConnectionGeometry &) const = default;
};

/// A connection as one end sees it. Both ends see the same bytes, at addresses of their own.
struct ConnectionView {
  std::byte *base = nullptr;  ///< 64-byte aligned
  ConnectionGeometry geometry;
  /// The memory that holds the heads of the FIFOs. By default it is this connection's memory. It can also be the memory
  /// of the connection in the opposite direction, which lies on the sender's side. In that case each side stores only
  /// into the other side's memory, and reads only its own memory.
  std::byte *credit = base;

  [[nodiscard]] RONDO_HD uint64_t &simple_head() const { return reinterpret_cast<PaddedCounter *>(credit)[0].value; }
  [[nodiscard]] RONDO_HD uint64_t &ll_head() const { return reinterpret_cast<PaddedCounter *>(credit)[1].value; }
  [[nodiscard]] RONDO_HD uint64_t slot(uint64_t counter) const { return counter & (geometry.slot_count - 1); }
  [[nodiscard]] RONDO_HD SlotHeader &header(uint64_t counter) const {
    return reinterpret_cast<SlotHeader *>(base + geometry.headers_offset())[slot(counter)];
  }
  [[nodiscard]] RONDO_HD uint64_t *ll_units(uint64_t counter) const {
    return reinterpret_cast<uint64_t *>(base + geometry.ll_offset() + slot(counter) * geometry.ll_stride());
  }
  [[nodiscard]] RONDO_HD std::byte *payload(uint64_t counter) const {
    return base + geometry.slots_offset() + slot(counter) * geometry.slot_bytes;
  }
};

}  // namespace rondo
