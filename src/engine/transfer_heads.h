// SPDX-License-Identifier: Apache-2.0
// The present messages of a batch that runs, as the watch over it sees them: the first that is not complete of each
// pair and direction. The host executor and the executors of a device know them in different ways.
#pragma once

#include <cstddef>

#include "src/engine/transfers.h"

namespace rondo {

class TransferHeads {
 public:
  virtual ~TransferHeads() = default;

  [[nodiscard]] virtual size_t head_count() const = 0;
  [[nodiscard]] virtual const Transfer &head(size_t index) const = 0;
  /// True: the head cannot move before its peer has stored something. This was read after the call began, or is not
  /// known and false.
  [[nodiscard]] virtual bool is_blocked(size_t index) = 0;
  /// Returns the head to name after the deadline. At least one exists.
  [[nodiscard]] virtual size_t late_head() = 0;
  /// Returns whether is_blocked() reads the slots at once.
  [[nodiscard]] virtual bool reads_slots() const { return true; }
};

}  // namespace rondo
