// SPDX-License-Identifier: Apache-2.0
// Finds ranks that wait for each other in a circle, by what they publish. Operations of a rank run one after another,
// so a circle does not end by itself.
//
// An edge says that a rank cannot complete the operation it is in before another rank begins something which its own
// present operation does not have:
//   a receive waits for the sender to enter the send of the same number;
//   a send waits where its rank has seen that no slot becomes free before the receiver enters one more receive;
//   a rank in a collective waits for those that have not entered it and whose data it needs.
// Each edge stays true until one of its two ranks enters another operation. So the ranks of a circle must be in the
// same operations before and after their edges were read: then all edges were true at one time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transports/messages.h"
#include "transports/ranks.h"

namespace rondo {

struct WaitEdge {
  enum class Kind : uint8_t { send, receive, collective };
  uint32_t rank = 0;
  uint32_t peer = 0;        ///< for which it waits
  Kind kind = Kind::send;
  uint64_t number = 0;      ///< of the message, or of the collective
  uint64_t batch = 0;       ///< messages: which batch of `rank` it is

  bool operator==(const WaitEdge &) const = default;
};

/// Returns the edges of a circle through `rank`, from its lowest rank on; empty: there is none.
[[nodiscard]] std::vector<WaitEdge> find_wait_cycle(const Ranks &ranks, const MessageBoards &boards, uint32_t rank,
                                                    uint32_t rank_count);

/// "rank 0 waits in send 1 to rank 1, which waits in send 1 to rank 0"
[[nodiscard]] std::string describe(const std::vector<WaitEdge> &cycle, const Ranks &ranks);

}  // namespace rondo
