// SPDX-License-Identifier: Apache-2.0
// This interface publishes the progress of messages between ranks. For each pair of ranks, it has the number of
// messages that each end has entered and completed, and the blocked sends. For each rank, it has records of its latest
// messages. Values of ranks on this host are current. report() also gets values from other hosts.
//
// A message has a number: its position, from 1, among the messages from one rank to another. Both ends have equal
// numbers. A rank enters messages in batches, one batch after another. For that rank, a batch is one operation.
//
// Threads  One thread at a time calls the functions from announce() to complete_batch(): it runs the batch, or watches
//          the device. Any thread may call the other functions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "src/base/result.h"

namespace rondo {

/// The number of latest messages of which each rank keeps a record.
inline constexpr uint64_t recorded_message_count = 256;

/// The most ranks of a communicator on several hosts that has messages: every two ranks need a connection for them.
inline constexpr uint32_t message_ranks_max = 64;

/// The number of operations whose blocks publish_block() keeps, for each peer.
inline constexpr uint64_t kept_block_operations = 16;
/// Returns the number that stands for the block of an operation in calls of find() and report().
[[nodiscard]] constexpr uint64_t block_number(uint64_t operation) { return operation | uint64_t{1} << 62; }
[[nodiscard]] constexpr bool is_block_number(uint64_t message) { return message >> 62 != 0; }

/// A message, as the call of one of its two ends describes it.
struct MessageInfo {
  uint32_t peer = 0;
  bool sends = false;    ///< false if this end receives
  uint32_t type = 0;     ///< element type, a rondo_type_t
  uint64_t bytes = 0;
  uint64_t message = 0;  ///< number of the message

  bool operator==(const MessageInfo &) const = default;
};

struct BatchCounts {
  uint64_t entered = 0;
  uint64_t completed = 0;

  bool operator==(const BatchCounts &) const = default;
};

/// This struct says what the device of a rank runs.
struct DevicePlace {
  enum class Kind : uint8_t {
    unknown,     ///< the rank has no device, or has not reported yet
    idle,        ///< nothing; calls may be enqueued
    replay,      ///< a graph, while no call waits
    collective,
    messages,
  };
  Kind kind = Kind::unknown;
  uint64_t number = 0;  ///< number of the collective, or of the record of the message that the device waits for

  bool operator==(const DevicePlace &) const = default;
};

/// This struct says what a rank does.
struct RankDoing {
  BatchCounts batches;
  DevicePlace device;
  bool has_captured = false;  ///< true if the rank has captured messages into a graph
  /// The message that the rank is in, or the oldest that has not completed. Empty if there is none, or no record of it.
  std::optional<MessageInfo> message;
};

/// These values say how a message ran.
enum class MessageRun : uint8_t {
  in_call,   ///< in the caller's thread
  behind,    ///< behind the caller: on a stream
  captured,  ///< not at all: a graph runs it later, so statistics do not count it
};

/// The numbers of messages of a pair in one direction, as one end counts them.
struct PairCounts {
  uint64_t entered = 0;
  uint64_t completed = 0;
};

/// A send that cannot progress until its receiver enters one more receive.
struct BlockedSend {
  uint64_t message = 0;  ///< number of the send, or 0 if none is blocked
  uint64_t needed = 0;   ///< number of the receive
};

/// A rank's report about its messages with one other rank in one direction.
struct MessageReport {
  PairCounts pair;
  RankDoing now;
  std::optional<MessageInfo> message;  ///< empty if the rank has not begun the message, or its record is overwritten
};

/// A rank's report about the operation that it is in. The report also goes to other hosts.
struct WaitReport {
  /// The messages of the rank with one other rank.
  struct Pair {
    PairCounts sends, receives;
    BlockedSend blocked;
  };
  BatchCounts batches;
  uint64_t entered = 0;    ///< number of the latest collective
  uint64_t completed = 0;  ///< read before `entered`, so it does not exceed `entered`
  std::array<Pair, message_ranks_max> pairs{};  ///< indexed by the other rank
};

class MessageBoards {
 public:
  virtual ~MessageBoards() = default;

  /// Prepares pair() and blocked() for a reader whose rank has called no message yet. Any thread.
  virtual Result<void> open() { return {}; }

  // These functions publish messages of this rank. The rank calls them in this order.
  /// Publishes that the next batch has messages of this pair and direction, up to number `last`.
  virtual void announce(uint32_t peer, bool sends, uint64_t last) = 0;
  virtual void enter_batch() = 0;
  /// Begins a record of the message and returns the record's number. The record's time is the time of this rank's
  /// latest enter_batch() or complete().
  [[nodiscard]] virtual uint64_t begin(const MessageInfo &message) = 0;
  virtual void complete(uint64_t record, const MessageInfo &message, MessageRun run) = 0;
  /// Ends the record of a message that did not complete. Only readers of records see it.
  virtual void fail(uint64_t record) = 0;
  virtual void complete_batch() = 0;
  /// Publishes which send to `peer` is blocked.
  virtual void block(uint32_t peer, const BlockedSend &send) = 0;

  // The monitor of a rank on a device calls these functions, on one thread.
  /// Publishes the size of the block that this rank sends to `peer` in a collective.
  virtual void publish_block(uint32_t /*peer*/, uint64_t /*operation*/, uint64_t /*bytes*/) {}
  /// Publishes what the device runs.
  virtual void publish_place(const DevicePlace &) {}
  /// Publishes that this rank has captured messages.
  virtual void publish_captured() {}
  /// Publishes what the device waits for (src/engine/wait_cycle.h). Null withdraws the report for good.
  virtual void publish_waits(const WaitReport *) {}

  /// Returns whether the rank is on this host. If it is not, do not call the functions from batches() to find() for it.
  [[nodiscard]] virtual bool knows(uint32_t) const { return true; }
  // These functions read what rank `of` has published. `of` may be this rank.
  [[nodiscard]] virtual BatchCounts batches(uint32_t of) const = 0;
  [[nodiscard]] virtual RankDoing doing(uint32_t of) const { return {batches(of), {}, false, std::nullopt}; }
  [[nodiscard]] virtual PairCounts pair(uint32_t of, uint32_t with, bool sends) const = 0;
  [[nodiscard]] virtual BlockedSend blocked(uint32_t of, uint32_t to) const = 0;
  /// Returns the message. Returns nothing if `of` has not begun the message, or its record is overwritten.
  [[nodiscard]] virtual std::optional<MessageInfo> find(uint32_t of, uint32_t with, bool sends,
                                                        uint64_t message) const = 0;
  /// Reads what the device of `of`, a rank of this host, waits for. Returns false if the rank has published nothing.
  [[nodiscard]] virtual bool device_waits(uint32_t, WaitReport &) const { return false; }
  /// Returns what `of` reports about its messages with `with`, and about the message with the given number. The report
  /// is not older than `since_ns`, by now_ns(). If no such report has arrived, the function asks for a report and
  /// returns nothing. If `of` is on another host, `with` must be this rank.
  [[nodiscard]] virtual std::optional<MessageReport> report(uint32_t of, uint32_t with, bool sends, uint64_t message,
                                                            uint64_t) {
    return MessageReport{pair(of, with, sends), doing(of), find(of, with, sends, message)};
  }
  /// Reads what `of`, a rank on another host, waits for. Returns true if an answer to a question that was asked at
  /// `since_ns` or later (by now_ns()) has arrived. Otherwise the function asks and returns false.
  [[nodiscard]] virtual bool read_waits(uint32_t, uint64_t, WaitReport &) { return false; }
};

}  // namespace rondo
