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
// place of the rank's calls. Such a report may be old: the comment at count_called() says why it still proves an edge.
//
// Ranks of other hosts report the operations that they are in (WaitReport). If these use host memory, each report was
// true at some time after it was asked for. But the reports need not be true at the same time. So one search over
// several hosts proves nothing, and find_far_wait_cycle() must run twice.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/engine/device_batch.h"
#include "src/engine/transfers.h"
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

// These functions describe what a rank on a device waits for, so that the search for circles can use it.
//
// A caller enqueues operations and does not wait for them. So a rank has called operations that it does not wait for
// yet. Its report describes its position: the operation that its device runs now. All operations of the rank after this
// one count as not entered.
//
// The ranks may report at different times, because a circle never ends by itself. In a circle, each rank runs an
// operation that needs a later operation of the next rank. An operation needs another one in two cases:
// - A receive needs its send.
// - A send needs receive n if the slots of message n and of all messages up to the send do not fit into the FIFO. Until
//   receive n begins, none of these slots becomes free.

/// Returns a report that counts all operations that `rank` has called. `boards` is ranks.messages().
[[nodiscard]] WaitReport count_called(const Ranks &ranks, const MessageBoards &boards, uint32_t rank,
                                      uint32_t rank_count);
/// Removes from the report the messages of a batch after the rank's position. Call it for every such batch.
void remove_later(WaitReport &report, std::span<const Transfer> later);
/// Adds to the report that the rank's device runs collective `number`.
void add_collective(WaitReport &report, uint64_t number);
/// Adds to the report the batch that the rank's device runs. `heads` has the first incomplete messages of `batch`.
void add_batch(WaitReport &report, const TransferHeads &heads, const DeviceBatch &batch, const SlotShape &slots,
               const MessageBoards &boards, uint32_t rank);

}  // namespace rondo
