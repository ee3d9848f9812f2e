// SPDX-License-Identifier: Apache-2.0
// This file defines the messages of a queue pair. Remote writes go only into FIFO slots and cells of the peer. Each
// message ends with one immediate, whose completion at the receiver means that everything before it has arrived.
//
//     Slot    payload up to cell_payload_bytes: write with immediate of a cell { Frame, payload }; the receiver copies
//                                               the payload into its slot
//             longer: write of the payload into the slot, then write with immediate of a Frame
//     Credit  write with immediate, without data: the counter is in the immediate
//     Hello   like Credit, after a write of a whole slot: full packets can pass the path in this direction
//     Bye     like Credit: nothing more arrives over this path
//     Cells   one for each slot of a link. A slot and its cell are written again only after the credit has arrived.
//
// Immediate   kind 2 bits | channel 8 bits | counter 22 bits, the lowest ones. At most slot_count_max (64) slots of a
//             link are under way, so these bits identify the slot.
// Numbers are in the byte order of the host, which is little-endian; the immediate is in network byte order.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace rondo::verbs {

static_assert(std::endian::native == std::endian::little, "frames hold the host's own byte order");

enum class MessageKind : uint32_t { slot = 0, credit = 1, hello = 2, bye = 3 };

struct Frame {
  uint64_t counter = 0;
  uint64_t consumed = 0;
  uint32_t signature = 0;
  uint32_t bytes = 0;
};
static_assert(sizeof(Frame) == 24);

inline constexpr uint32_t cell_payload_bytes = 232;

struct alignas(64) Cell {
  Frame frame;
  std::byte payload[cell_payload_bytes];
};
static_assert(sizeof(Cell) == 256);

inline constexpr uint32_t counter_bits = 22;
inline constexpr uint32_t channel_bits = 8;
inline constexpr uint32_t counter_mask = (1u << counter_bits) - 1;
inline constexpr uint32_t channel_count_max = 1u << channel_bits;

struct Immediate {
  MessageKind kind = MessageKind::slot;
  uint32_t channel = 0;
  uint32_t counter = 0;  ///< lowest bits of the counter
};

[[nodiscard]] constexpr uint32_t pack(MessageKind kind, uint32_t channel, uint64_t counter) {
  return static_cast<uint32_t>(kind) << (counter_bits + channel_bits) | channel << counter_bits |
         (static_cast<uint32_t>(counter) & counter_mask);
}

[[nodiscard]] constexpr Immediate unpack(uint32_t word) {
  return {static_cast<MessageKind>(word >> (counter_bits + channel_bits)),
          (word >> counter_bits) & (channel_count_max - 1), word & counter_mask};
}

/// Returns the counter nearest to `known` that has these lowest bits.
[[nodiscard]] constexpr uint64_t nearest(uint64_t known, uint32_t lowest) {
  const uint32_t ahead = (lowest - static_cast<uint32_t>(known)) & counter_mask;
  const uint32_t behind = counter_mask + 1 - ahead;
  return behind < ahead && behind <= known ? known - behind : known + ahead;
}

}  // namespace rondo::verbs
