// SPDX-License-Identifier: Apache-2.0
// A wait report is what a rank publishes about the operation that it is in, in a form that goes to other hosts.
#pragma once

#include <array>
#include <cstdint>

#include "src/links/message_boards.h"

namespace rondo {

struct WaitReport {
  /// The messages of the rank with one other rank.
  struct Pair {
    PairCounts sends, receives;
    BlockedSend blocked;
  };
  BatchCounts batches;
  uint64_t entered = 0;    ///< number of the latest collective
  uint64_t completed = 0;  ///< read before `entered`, so it is not ahead of it
  std::array<Pair, message_ranks_max> pairs{};  ///< by the other rank
};

}  // namespace rondo
