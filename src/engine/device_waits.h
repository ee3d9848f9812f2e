// SPDX-License-Identifier: Apache-2.0
// These functions describe what a rank on a device waits for, so that the search for circles (src/engine/wait_cycle.h)
// can use it.
//
// A caller enqueues operations and does not wait for them. So the operations that a rank has called do not show what it
// waits for. The report describes a position in the order of the rank's operations: the operation that its device runs.
// All operations after this one count as not entered.
//
// The time of a report does not matter. Suppose that the operation of each rank of a circle needs an operation of the
// next rank that comes after that rank's position. Then no operation of the circle can ever end.
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
/// Removes the messages of a batch that comes after the rank's position. Call it for every such batch.
void remove_later(WaitReport &report, std::span<const Transfer> later);
/// Adds to the report that the rank is in collective `number`.
void add_collective(WaitReport &report, uint64_t number);
/// Adds to the report a batch in which the rank is, with its incomplete heads. `heads` has transfers of `batch`.
void add_batch(WaitReport &report, const TransferHeads &heads, const DeviceBatch &batch, const SlotShape &slots,
               const MessageBoards &boards, uint32_t rank);

}  // namespace rondo
