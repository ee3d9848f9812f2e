// SPDX-License-Identifier: Apache-2.0
// This function finds ranks that wait for each other in a circle, from the state that ranks publish. A rank runs its
// operations one after another, so such a circle never ends by itself.
//
// An edge leads from a rank that waits to the rank for which it waits. The waiting rank cannot complete its operation
// before the awaited rank enters an operation that comes after its present one. Edges arise in three cases:
// - A receive waits until the sender enters the send with the same number.
// - A send waits if its rank has seen that no slot becomes free before the receiver enters one more receive.
// - A collective waits for the ranks whose data it needs and that have not entered it.
// On host memory, each edge stays true until one of its two ranks enters another operation. So if the ranks
// of a circle are in the same operations before and after their edges were read, all edges were true at one time.
//
// A rank on a device enqueues operations that have not begun. So the search reads the report of the rank's monitor in
// place of the rank's calls. Such a report may be old: src/engine/device_waits.h says why it still proves an edge.
//
// Ranks of other hosts report the operations that they are in (WaitReport). If these use host memory, each report was
// true at some time after it was asked for. But the reports need not be true at the same time. So one search over
// several hosts proves nothing, and find_far_wait_cycle() must run twice.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/links/message_boards.h"
#include "src/links/ranks.h"

namespace rondo {

struct WaitEdge {
  enum class Kind : uint8_t { send, receive, collective };
  uint32_t rank = 0;
  uint32_t peer = 0;        ///< rank that `rank` waits for
  Kind kind = Kind::send;
  uint64_t number = 0;      ///< number of the message or of the collective
  uint64_t batch = 0;       ///< for messages: number of the batch of `rank`

  bool operator==(const WaitEdge &) const = default;
};

/// Returns the edges of a circle through `rank`, beginning at the circle's lowest rank. Empty if there is no circle.
[[nodiscard]] std::vector<WaitEdge> find_wait_cycle(const Ranks &ranks, const MessageBoards &boards, uint32_t rank,
                                                    uint32_t rank_count);

/// The result of a search over several hosts.
struct FarSearch {
  std::vector<WaitEdge> cycle;
  bool complete = true;  ///< false if a report that the search needed has not arrived
};

/// Finds a circle through `rank` over all hosts, in reports that were asked for at `since_ns` or later. Call it again,
/// with a `since_ns` after the end of the first search. If both searches find the same circle, each of its ranks was in
/// the same operation before and after the first search ended. So all edges were true at that end.
[[nodiscard]] FarSearch find_far_wait_cycle(const Ranks &ranks, MessageBoards &boards, uint32_t rank,
                                            uint32_t rank_count, uint64_t since_ns);

/// Describes a circle: "rank 0 waits in send 1 to rank 1, which waits in send 1 to rank 0"
[[nodiscard]] std::string describe(const std::vector<WaitEdge> &cycle, const Ranks &ranks);

}  // namespace rondo
