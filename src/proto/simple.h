// SPDX-License-Identifier: Apache-2.0
// The protocol simple stores the flag after the data. A slot is a payload of up to slot_bytes, and a header, whose
// sequence is the flag.
//
// Layout    connection.h: head, headers, slots. The payload is in the slot, or (by reference) where the header says. If
//           a sender keeps its slots outside the connection, the receiver must know where (transports/net.h).
// Ordering  S1 load head, sync               pairs with S6: the slot's last reader has finished
//           S2 write payload and header fields, plain
//           S3 store header.sequence, release pairs with S4 (sync where the receiver may sleep)
//           S4 load header.sequence, sync, until counter + 1
//           S5 read header fields and payload, plain
//           S6 store head, release           pairs with S1
// State     of a slot: free (sender may write) --S3--> full (receiver may read) --S6--> free
//           of a reference: the receiver may read the sender's buffer from S3 to S6; the operation ends after S6
// Abort     after a lane has given up, it does neither S3 nor S6. Its peers stay blocked until their own deadline.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/proto/connection.h"
#include "src/proto/memory.h"

namespace rondo {

/// The sender's end. Its counters continue from operation to operation.
class SimpleSender {
 public:
  SimpleSender() = default;
  /// Makes the sending end. Payloads are written to `slots`. If it is null, they go to the connection's own slots.
  RONDO_HD explicit SimpleSender(ConnectionView connection, uint64_t first_counter = 0, std::byte *slots = nullptr)
      : connection_(connection),
        slots_(slots != nullptr || connection.base == nullptr ? slots : connection.payload(0)),
        posted_(first_counter),
        consumed_(first_counter) {}

  /// Returns whether the next slot may be written, because the S6 of its last reader was seen. `wake` is true if ranks
  /// may sleep (memory.h).
  [[nodiscard]] RONDO_HD bool can_send(bool wake = true) {
    if (posted_ - consumed_ < connection_.geometry.slot_count) return true;
    consumed_ = memory::load_flag(connection_.simple_head(), wake);  // S1, pairs with S6 in SimpleReceiver::release
    return posted_ - consumed_ < connection_.geometry.slot_count;
  }
  /// Says, by a relaxed load, whether can_send() may succeed. A rank that has waited for long calls this first.
  [[nodiscard]] RONDO_HD bool may_send() const {
    const uint64_t slot_count = connection_.geometry.slot_count;
    return posted_ - consumed_ < slot_count || posted_ - memory::load_relaxed(connection_.simple_head()) < slot_count;
  }
  [[nodiscard]] RONDO_HD std::byte *payload() const {
    return slots_ + connection_.slot(posted_) * connection_.geometry.slot_bytes;
  }

  /// Writes the slot's header except `sequence`.
  RONDO_HD void fill(const SlotHeader &fields) {
    SlotHeader &header = connection_.header(posted_);
    memory::note(memory::Access::store, &header, sizeof header - sizeof header.sequence);
    header.signature = fields.signature;
    header.kind = fields.kind;
    header.bytes = fields.bytes;
    header.inode = fields.inode;
    header.region = fields.region;
    header.address = fields.address;
    header.region_bytes = fields.region_bytes;
    header.descriptor = fields.descriptor;
    if (static_cast<PayloadKind>(fields.kind) != PayloadKind::in_slot) referenced_ = posted_ + 1;
  }
  /// Fills and publishes the slot. If the receiver may sleep, `wake` is true, see memory.h.
  void post(const SlotHeader &fields, bool wake) {
    fill(fields);
    SlotHeader &header = connection_.header(posted_++);
    if (wake) {
      memory::store_sync(header.sequence, posted_);  // S3, pairs with S4 in SimpleReceiver::can_receive
    } else {
      memory::store_release<memory::Site::simple_post>(header.sequence, posted_);  // S3, pairs with S4, the same
    }
  }
  /// Publishes a slot that has been filled, as one of several consecutive releases.
  RONDO_HD void post_filled(memory::Releases &releases) {
    SlotHeader &header = connection_.header(posted_++);
    releases.store<memory::Site::simple_post>(header.sequence, posted_);  // S3, the same
  }
  /// Returns whether all payloads that were sent by reference have been read.
  [[nodiscard]] RONDO_HD bool references_returned(bool wake = true) {
    if (consumed_ >= referenced_) return true;
    consumed_ = memory::load_flag(connection_.simple_head(), wake);  // S1, pairs with S6 in SimpleReceiver::release
    return consumed_ >= referenced_;
  }

 private:
  ConnectionView connection_;
  std::byte *slots_ = nullptr;
  uint64_t posted_ = 0;    ///< counter of the next slot
  uint64_t consumed_ = 0;  ///< the receiver's head as last seen
  uint64_t referenced_ = 0;      ///< counter of the last reference, plus one
};

/// The receiver's end. Its counter continues from operation to operation.
class SimpleReceiver {
 public:
  SimpleReceiver() = default;
  RONDO_HD explicit SimpleReceiver(ConnectionView connection, uint64_t first_counter = 0)
      : connection_(connection), consumed_(first_counter) {}

  /// Returns true if the next slot is full; if so, header() and payload() may be read.
  [[nodiscard]] RONDO_HD bool can_receive(bool wake = true) const {
    return memory::load_flag(header().sequence, wake) == consumed_ + 1;  // S4, pairs with S3 in SimpleSender::post
  }
  /// Says, by a relaxed load, whether can_receive() succeeds. A rank that has waited for long calls this first.
  [[nodiscard]] RONDO_HD bool may_receive() const {
    return memory::load_relaxed(header().sequence) == consumed_ + 1;  // see S4
  }
  [[nodiscard]] RONDO_HD const SlotHeader &header() const { return connection_.header(consumed_); }
  [[nodiscard]] RONDO_HD const std::byte *payload() const { return connection_.payload(consumed_); }

  /// Releases the slot, which the sender may then write again.
  void release(bool wake) {
    ++consumed_;
    if (wake) {
      memory::store_sync(connection_.simple_head(), consumed_);  // S6, pairs with S1 in SimpleSender::can_send
    } else {
      memory::store_release<memory::Site::simple_release>(connection_.simple_head(), consumed_);  // S6, the same
    }
  }
  RONDO_HD void release(memory::Releases &releases) {
    releases.store<memory::Site::simple_release>(connection_.simple_head(), ++consumed_);  // S6, the same
  }

 private:
  ConnectionView connection_;
  uint64_t consumed_ = 0;  ///< counter of the next slot
};

}  // namespace rondo
