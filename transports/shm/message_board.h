// SPDX-License-Identifier: Apache-2.0
// Each rank of a host publishes its messages on a board in the segment (src/links/message_boards.h). A board's owner
// has its number among the ranks of this host; peers have their numbers in the communicator. All words are accessed by
// the functions of src/proto/memory.h. Only the owner of a board writes its words.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "src/base/clock.h"
#include "src/links/message_boards.h"
#include "src/links/ranks.h"
#include "src/proto/connection.h"
#include "transports/shm/board.h"

namespace rondo::shm {

class Segment;

/// The record of a message that a rank has begun, in one cache line. Like an OperationRecord, it is written word by
/// word, with `record` last.
struct alignas(cache_line_bytes) MessageRecord {
  uint64_t record = 0;  ///< its number, from 1; 0 while the other words change
  uint64_t ends = 0;    ///< type, 1 << 8 for a send, peer << 32
  uint64_t bytes = 0;
  uint64_t message = 0;
  uint64_t begun_ticks = 0;
  uint64_t end = 0;  ///< ticks << 2 | OperationState, or 0 while it runs
  uint64_t batch = 0;  ///< number of the batch, from 1
};
static_assert(sizeof(MessageRecord) == cache_line_bytes);

/// The part of a board that only a rank on a device publishes. Pages that no device uses take no memory.
struct alignas(cache_line_bytes) DeviceBoard {
  struct BlockSize {
    uint64_t operation = 0;  ///< 0 while `bytes` changes
    uint64_t bytes = 0;
  };
  using WaitWords = std::array<uint64_t, sizeof(WaitReport) / sizeof(uint64_t)>;

  uint64_t waits_version = 0;  ///< odd while `waits` changes; 0 if nothing is published
  WaitWords waits{};           ///< a WaitReport
  BlockSize blocks[kept_block_operations][message_ranks_max];  ///< by operation % kept_block_operations, and peer
  uint64_t place = 0;     ///< a DevicePlace: number << 3 | kind
  uint64_t captured = 0;  ///< 1 if the rank has captured messages
};

struct alignas(cache_line_bytes) MessageBoard {
  uint64_t batches_entered = 0;
  uint64_t batches_completed = 0;
  uint64_t records = 0;  ///< number of the latest record
  MessageRecord ring[recorded_message_count];  ///< record n at n % recorded_message_count
  DeviceBoard device;
};
static_assert(sizeof(MessageBoard) == (1 + recorded_message_count) * cache_line_bytes + sizeof(DeviceBoard));

/// A rank's report on its messages with another rank. Index 1 is for messages that it sends, 0 for received ones.
struct alignas(cache_line_bytes) PairBoard {
  uint64_t entered[2] = {};
  uint64_t completed[2] = {};
  uint64_t blocked_message = 0;  ///< 0 while `blocked_needed` changes
  uint64_t blocked_needed = 0;
};
static_assert(sizeof(PairBoard) == cache_line_bytes);

/// A record with its times in ticks. Its values are plain numbers, because the record of an unknown process may hold
/// anything.
struct TimedMessage {
  MessageInfo info;
  uint64_t batch = 0;
  uint64_t begun_ticks = 0;
  uint64_t ended_ticks = 0;  ///< 0: running
  OperationState state = OperationState::running;
};
[[nodiscard]] std::optional<TimedMessage> timed_message(const MessageBoard &board, uint64_t record);
/// Reads what the device of the board's rank runs.
[[nodiscard]] DevicePlace device_place(const MessageBoard &board);

class ShmMessages final : public MessageBoards {
 public:
  ShmMessages(std::shared_ptr<Segment> segment, uint32_t rank);

  Result<void> open() override;
  void announce(uint32_t peer, bool sends, uint64_t last) override;
  void enter_batch() override;
  [[nodiscard]] uint64_t begin(const MessageInfo &message) override;
  void complete(uint64_t record, const MessageInfo &message, MessageRun run) override;
  void fail(uint64_t record) override;
  void complete_batch() override;
  void block(uint32_t peer, const BlockedSend &send) override;
  void publish_block(uint32_t peer, uint64_t operation, uint64_t bytes) override;
  void publish_place(const DevicePlace &place) override;
  void publish_captured() override;
  void publish_waits(const WaitReport *report) override;

  [[nodiscard]] BatchCounts batches(uint32_t of) const override;
  [[nodiscard]] RankDoing doing(uint32_t of) const override;
  [[nodiscard]] PairCounts pair(uint32_t of, uint32_t with, bool sends) const override;
  [[nodiscard]] BlockedSend blocked(uint32_t of, uint32_t to) const override;
  [[nodiscard]] std::optional<MessageInfo> find(uint32_t of, uint32_t with, bool sends,
                                                uint64_t message) const override;
  [[nodiscard]] bool device_waits(uint32_t of, WaitReport &report) const override;

 private:
  void end(uint64_t record, OperationState state, uint64_t ticks);
  /// Returns this rank's board for messages with `peer`. Call it only after Segment::open_messages().
  [[nodiscard]] PairBoard &own_pair(uint32_t peer);

  const std::shared_ptr<Segment> segment_;
  const uint32_t rank_;
  const TickSource tick_source_;
  MessageBoard &own_;
  RankBoard &own_board_;
  PairBoard *own_pairs_ = nullptr;  ///< this rank's boards by peer; null before the first use
  uint64_t latest_ticks_ = 0;       ///< time of the latest enter_batch() or complete()
};

}  // namespace rondo::shm
