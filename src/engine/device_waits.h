// SPDX-License-Identifier: Apache-2.0
// These functions describe what a rank on a device waits for, so that the search for circles (src/engine/wait_cycle.h)
// can use it.
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
#pragma once

#include <cstdint>
#include <span>

#include "src/engine/device_batch.h"
#include "src/engine/transfers.h"
#include "src/links/message_boards.h"
#include "src/links/ranks.h"

namespace rondo {

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
