// SPDX-License-Identifier: Apache-2.0
// This file declares the words for which streams of the copy-engine executor wait. The words are in host memory that
// all ranks of a communicator map and all their devices see. A rank's streams wait only for words in its own part,
// which streams of its peers write. So the host can end every wait by plain stores, even while the device's queues are
// blocked.
//
// Layout    a part for each rank, in it a place for each (channel, peer) of
//             posted                                slots that the peer has posted to this rank, since the beginning
//             consumed                              slots of this rank that the peer has consumed, likewise
//             captured_posted, captured_consumed    the same in a captured call, which counts from 0
//             arrived                               1: the peer has reached a captured call in which it receives
//             signatures                            slot_count * 2: SlotSignature of the operation that a slot begins
//           after all parts, FIFOs without their payloads, by receiver, channel and sender. Only threads of the host
//           use them (cuda/executors/copy_fifos.h)
// Values    The first two grow; the next three are 0 between captured calls (cuda/executors/copy_executor.cpp). All are
//           less than flags_released. Each wait is "greater or equal", so flags_released ends all waits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cuda/transport/info_exchange.h"
#include "cuda/driver/handles.h"
#include "src/proto/connection.h"

namespace rondo::cuda {

/// A value that ends every wait for a value in [-flags_released, flags_released].
inline constexpr uint64_t flags_released = uint64_t{1} << 62;

/// Two words that name the operation that begins with this slot. Streams wait until each word is greater than or equal
/// to its value. Since one word is the negative of the other, both are then equal to their values.
struct SlotSignature {
  uint64_t value = 0;     ///< 29 bits of the number, then the digest
  uint64_t opposite = 0;  ///< -value

  [[nodiscard]] static SlotSignature of(uint64_t number, uint32_t fingerprint) {
    constexpr uint64_t number_mask = (1u << 29) - 1;  // so that the value is less than flags_released
    const uint64_t value = (number & number_mask) << 32 | fingerprint;
    return {value, 0 - value};
  }
};

/// The words of a place, before its signatures.
enum class FlagWord : uint32_t { posted, consumed, captured_posted, captured_consumed, arrived, count };

struct FlagShape {
  uint32_t rank_count = 1;
  uint32_t channel_count = 1;  ///< 0: no stream waits for another rank
  ConnectionGeometry geometry;
  uint32_t message_channels = 0;  ///< 0: ranks exchange no messages
  ConnectionGeometry message_geometry;
  uint32_t fifo_channels = 0;  ///< the channels for messages come first; the others have `geometry`

  [[nodiscard]] uint64_t place_bytes() const;
  /// Returns the offset of the place in the part of `rank` for its connections with `peer`.
  [[nodiscard]] uint64_t place_offset(uint32_t rank, uint32_t channel, uint32_t peer) const;
  /// Returns where the FIFO from `sender` to `receiver` begins.
  [[nodiscard]] uint64_t fifo_offset(uint32_t receiver, uint32_t channel, uint32_t sender) const;
  [[nodiscard]] uint64_t bytes() const;
};

/// The flags of one rank. All ranks of a process use one mapping of their memory.
class Flags {
 public:
  /// Connects the ranks of each node; every rank calls it. Rank `maker`, which is of this node, creates the memory.
  [[nodiscard]] static Result<Flags> connect(const PrimaryContext &context, const FlagShape &shape, uint32_t maker,
                                             InfoExchange &info_exchange);

  [[nodiscard]] const FlagShape &shape() const { return shape_; }

  /// Returns the device's address of a word in the part of `rank`, for its connections with `peer`.
  [[nodiscard]] DevicePointer word(FlagWord which, uint32_t rank, uint32_t channel, uint32_t peer) const {
    return address_ + shape_.place_offset(rank, channel, peer) + static_cast<uint64_t>(which) * sizeof(uint64_t);
  }
  /// Returns the address of SlotSignature::value, which SlotSignature::opposite follows.
  [[nodiscard]] DevicePointer signature(uint32_t rank, uint32_t channel, uint32_t peer, uint64_t slot) const {
    return word(FlagWord::count, rank, channel, peer) + 2 * slot * sizeof(uint64_t);
  }

  /// Returns the FIFO from `sender` to `receiver`, as the host sees it. Its payloads are elsewhere.
  [[nodiscard]] ConnectionView fifo(uint32_t receiver, uint32_t channel, uint32_t sender) const {
    return {base_ + shape_.fifo_offset(receiver, channel, sender),
            channel < shape_.message_channels ? shape_.message_geometry : shape_.geometry};
  }

  /// Ends all waits of this rank, from any thread. Streams may write to the words afterwards, so repeat the call.
  void release() const;

 private:
  FlagShape shape_;
  uint32_t rank_ = 0;
  std::shared_ptr<const void> memory_;  ///< registered with the driver; the mapping of this process
  std::byte *base_ = nullptr;
  DevicePointer address_ = 0;
};

}  // namespace rondo::cuda
