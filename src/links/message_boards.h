// SPDX-License-Identifier: Apache-2.0
// This interface publishes the messages of ranks to each other. It has the numbers that each pair has entered and
// completed, the sends that are blocked, and a record of the latest messages of each rank. Ranks of one host know it of
// each other without a delay. A rank of another host is asked.
//
// A message has a number: its position, from 1, among the messages that one rank sends to another. Both ends count it
// alike. A rank enters messages in batches, one after another. A batch is one operation of that rank.
//
// Threads  announce() to complete_batch(): one thread at a time, which runs the batch or watches the device that does.
//          Everything else: any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "src/base/result.h"

namespace rondo {

/// Records of messages that each rank keeps.
inline constexpr uint64_t recorded_message_count = 256;

/// The most ranks of a communicator on several hosts that exchanges messages: each two of them are connected.
inline constexpr uint32_t message_ranks_max = 64;

/// A message as one of its two ends has called it.
struct MessageInfo {
  uint32_t peer = 0;
  bool sends = false;    ///< false: this end receives
  uint32_t type = 0;     ///< rondo_type_t
  uint64_t bytes = 0;
  uint64_t message = 0;  ///< its number

  bool operator==(const MessageInfo &) const = default;
};

struct BatchCounts {
  uint64_t entered = 0;
  uint64_t completed = 0;

  bool operator==(const BatchCounts &) const = default;
};

/// The messages of a pair in one direction, as one of its ends counts them.
struct PairCounts {
  uint64_t entered = 0;
  uint64_t completed = 0;
};

/// A send that cannot move before its receiver has entered one more receive. That stays true until the receiver has.
struct BlockedSend {
  uint64_t message = 0;  ///< number of the send, or 0 if none is blocked
  uint64_t needed = 0;   ///< number of the receive
};

/// The messages of a rank with one other rank in one direction, as that rank reports them.
struct MessageReport {
  PairCounts pair;
  BatchCounts batches;
  std::optional<MessageInfo> message;  ///< none: it has not begun, or its record is overwritten
};

class MessageBoards {
 public:
  virtual ~MessageBoards() = default;

  /// Makes pair() and blocked() usable for a reader that has not called a message itself. Any thread.
  virtual Result<void> open() { return {}; }

  // This rank publishes what it does, in this order.
  /// The next batch has messages of this pair and direction up to number `last`.
  virtual void announce(uint32_t peer, bool sends, uint64_t last) = 0;
  virtual void enter_batch() = 0;
  /// Returns the number of the message's record.
  [[nodiscard]] virtual uint64_t begin(const MessageInfo &message) = 0;
  /// Completes a record. in_call: the thread of the caller ran it.
  virtual void complete(uint64_t record, const MessageInfo &message, bool in_call) = 0;
  /// Ends a record whose message did not complete; for readers of records alone.
  virtual void fail(uint64_t record) = 0;
  virtual void complete_batch() = 0;
  /// Publishes which send to `peer` is blocked.
  virtual void block(uint32_t peer, const BlockedSend &send) = 0;

  /// Returns whether the rank is on this host. The functions after it are for such ranks, and report() is for all.
  [[nodiscard]] virtual bool knows(uint32_t) const { return true; }
  // Reads what a rank, which may be this one, has published.
  [[nodiscard]] virtual BatchCounts batches(uint32_t of) const = 0;
  [[nodiscard]] virtual PairCounts pair(uint32_t of, uint32_t with, bool sends) const = 0;
  [[nodiscard]] virtual BlockedSend blocked(uint32_t of, uint32_t to) const = 0;
  /// None: it has not begun, or its record is overwritten.
  [[nodiscard]] virtual std::optional<MessageInfo> find(uint32_t of, uint32_t with, bool sends,
                                                        uint64_t message) const = 0;
  /// Returns what `of` says of its messages with `with`, and of the one with number `message`. What it says is not from
  /// before `since_ns`, by now_ns(). Returns none and asks if the answer is not here yet. If `of` is on another host,
  /// `with` is this rank.
  [[nodiscard]] virtual std::optional<MessageReport> report(uint32_t of, uint32_t with, bool sends, uint64_t message,
                                                            uint64_t) {
    return MessageReport{pair(of, with, sends), batches(of), find(of, with, sends, message)};
  }
};

}  // namespace rondo
