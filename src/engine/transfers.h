// SPDX-License-Identifier: Apache-2.0
// A batch is a list of messages that one rank sends and receives as one operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <type_traits>
#include <vector>

namespace rondo {

/// One end of a message, as its executor runs it.
struct Transfer {
  std::byte *data = nullptr;  ///< buffer; only read if this end sends
  uint64_t bytes = 0;
  uint64_t message = 0;    ///< number of the message among the messages of its pair and direction, from 1
  uint32_t signature = 0;  ///< digest of the sizes of this message and all before it, equal at both ends
  uint32_t peer = 0;       ///< may be this rank
  uint32_t type = 0;       ///< element type, a rondo_type_t
  bool sends = false;
  Transfer *next = nullptr;  ///< next in the queue of its pair and direction, while the batch runs
  bool exchanges = false;  ///< on a device: sends each slice, then receives the peer's slice into its place
};

/// The transfers of a batch. A few transfers need no allocation.
class TransferList {
 public:
  /// Makes room for `count` transfers.
  void reserve(size_t count) {
    if (count > few_count) many_.resize(count);
  }
  Transfer &add() { return many_.empty() ? *new (few() + count_++) Transfer : many_[count_++]; }
  [[nodiscard]] std::span<Transfer> all() { return {many_.empty() ? few() : many_.data(), count_}; }

 private:
  static constexpr size_t few_count = 4;

  [[nodiscard]] Transfer *few() { return reinterpret_cast<Transfer *>(few_); }

  /// Memory of the first few transfers. It is not cleared, because that would take much of a short message's time.
  alignas(Transfer) std::byte few_[few_count * sizeof(Transfer)];
  std::vector<Transfer> many_;  ///< empty if all are in few_
  size_t count_ = 0;
};
static_assert(std::is_trivially_copyable_v<Transfer>);

/// A batch of messages. Messages of different pairs have no order. A message from this rank to itself is two transfers:
/// the n-th send to itself, and the n-th receive from itself.
struct MessageBatch {
  TransferList transfers;  ///< in the order of the calls
  uint64_t turn = 0;
  bool captured = false;  ///< true if it is captured into a graph, as in WorkItem
};

/// The use of a FIFO by the head that sends through it.
struct SlotUse {
  uint64_t posted = 0;      ///< slots of the head that were posted
  uint64_t slot_bytes = 0;  ///< payload of a slot
  uint64_t slot_count = 0;  ///< slots of the FIFO
};

/// The heads of a running batch, as its watch (transfer_watch.h) reads them. A head is the first incomplete message of
/// a pair and direction. The host executor and the executors of a device implement it differently.
class TransferHeads {
 public:
  virtual ~TransferHeads() = default;

  [[nodiscard]] virtual size_t head_count() const = 0;
  [[nodiscard]] virtual const Transfer &head(size_t index) const = 0;
  /// Returns true if the head cannot move before its peer stores something. The function must read the state during the
  /// call, and not use an earlier reading. If it cannot read the state, it returns false.
  [[nodiscard]] virtual bool is_blocked(size_t index) = 0;
  /// Returns the head that a timeout error names. At least one head exists.
  [[nodiscard]] virtual size_t late_head() = 0;
  /// Returns whether is_blocked() reads the slots themselves, without delay.
  [[nodiscard]] virtual bool reads_slots() const { return true; }
  /// Returns how many slots of its FIFO a head that sends has posted. Call it only if reads_slots() is true.
  [[nodiscard]] virtual SlotUse posted_slots(size_t) const { return {}; }
};

}  // namespace rondo
