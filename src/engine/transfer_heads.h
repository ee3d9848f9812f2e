// SPDX-License-Identifier: Apache-2.0
// A batch's watch (transfer_watch.h) reads the heads of a running batch by this interface. A head is the first
// incomplete message of a pair and direction. The host executor and the executors of a device implement it differently.
#pragma once

#include <cstddef>

#include "src/engine/transfers.h"

namespace rondo {

/// Slots in the FIFO of a pair and direction.
struct SlotUse {
  uint64_t posted = 0;      ///< slots of the head that were posted
  uint64_t slot_bytes = 0;  ///< payload of a slot
  uint64_t slot_count = 0;  ///< slots of the FIFO
};

class TransferHeads {
 public:
  virtual ~TransferHeads() = default;

  [[nodiscard]] virtual size_t head_count() const = 0;
  [[nodiscard]] virtual const Transfer &head(size_t index) const = 0;
  /// Returns true if the head cannot move before its peer stores something. The function must read the state during the
  /// call, not a state that was read before. If it cannot read the state, it returns false.
  [[nodiscard]] virtual bool is_blocked(size_t index) = 0;
  /// Returns the head that a timeout error names. At least one head exists.
  [[nodiscard]] virtual size_t late_head() = 0;
  /// Returns whether is_blocked() reads the slots themselves, without delay.
  [[nodiscard]] virtual bool reads_slots() const { return true; }
  /// Returns how many slots of its FIFO a head that sends has posted. Call it only if reads_slots() is true.
  [[nodiscard]] virtual SlotUse posted_slots(size_t) const { return {}; }
};

}  // namespace rondo
