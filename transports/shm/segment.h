// SPDX-License-Identifier: Apache-2.0
// The shared memory of a communicator on one host: one memfd segment, made by the lowest rank there and handed over by
// descriptor. It has no path, takes nothing of /dev/shm's size limit and goes with the last process that maps it.
//
// Layout   SegmentHeader | SharedFailure | RankBoard[rank_count] | MessageBoard[rank_count] | exchange |
//          connections[channel][from][to], and what is mapped with the first message: PairBoard[rank_count][peer]
//          | messages[from][to]
// Pages are used only where they are touched: connections that no algorithm uses cost nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "src/base/result.h"
#include "src/base/unique_handle.h"
#include "src/memory/segment_table.h"
#include "src/proto/connection.h"
#include "src/proto/exchange.h"
#include "transports/shm/board.h"
#include "transports/shm/message_board.h"

namespace rondo::shm {

struct alignas(cache_line_bytes) SegmentHeader {
  uint64_t magic = 0;  ///< written last
  SegmentId id;
  uint64_t rank_count = 0;
  uint64_t tick_source = 0;  ///< TickSource of all records
  // When the segment was made, by both clocks: with a second such mark a reader converts ticks.
  uint64_t made_ticks = 0;
  uint64_t made_ns = 0;
  uint32_t channel_count = 0;
  ConnectionGeometry geometry;
  ExchangeGeometry exchange;
  uint32_t message_slot_bytes = 0;
  uint32_t message_slot_count = 0;
  uint64_t dump = 0;  ///< DumpState; it changes, and so does what follows
  // ClockOffset, of one rank of this host; each measurement is as good as the one before it.
  uint64_t clock_measured = 0;  ///< 1: what follows is known
  uint64_t clock_offset_ns = 0;  ///< as int64_t
  uint64_t clock_uncertainty_ns = 0;
};
static_assert(sizeof(SegmentHeader) == 2 * cache_line_bytes);

/// The state of the file with the recording of a failed communicator.
enum class DumpState : uint64_t { none = 0, claimed = 1, finished = 2 };

/// The most ranks of a stranger's segment: far more than a host has, and a few hundred megabytes of addresses.
inline constexpr uint64_t observed_rank_count_max = 4096;

/// The memfd's name, as /proc shows it.
inline constexpr const char *segment_file_name = "rondo-segment";

struct SegmentShape {
  uint32_t rank_count = 1;  ///< ranks of this host
  uint32_t channel_count = 1;
  ConnectionGeometry geometry;
  ExchangeGeometry exchange;
  uint32_t message_slot_bytes = 4096;
  uint32_t message_slot_count = 4;
  uint32_t group_rank_count = 0;  ///< ranks of all hosts, with which messages are counted; 0 if all are here

  /// Returns the geometry of connections for messages, which only have slots of the protocol simple.
  [[nodiscard]] ConnectionGeometry messages() const { return {message_slot_count, message_slot_bytes, 0}; }

  [[nodiscard]] size_t boards_offset() const;
  [[nodiscard]] size_t message_boards_offset() const;
  [[nodiscard]] size_t exchange_offset() const;
  [[nodiscard]] size_t connections_offset() const;
  /// Returns the bytes that are mapped from the beginning.
  [[nodiscard]] size_t bytes() const;
  [[nodiscard]] uint32_t peer_count() const { return group_rank_count != 0 ? group_rank_count : rank_count; }
  // Both include the pairs; message_bytes() has the messages, too. The file has bytes() + message_bytes().
  [[nodiscard]] size_t pair_boards_bytes() const;
  [[nodiscard]] size_t message_bytes() const;
};

class Segment {
 public:
  [[nodiscard]] static Result<std::shared_ptr<Segment>> create(const SegmentId &id, const SegmentShape &shape);
  /// Maps a segment that another process made; checks that it is the one that `id` and `shape` say.
  [[nodiscard]] static Result<std::shared_ptr<Segment>> attach(FileDescriptor descriptor, const SegmentId &id,
                                                               const SegmentShape &shape);
  /// Maps, for reading only, what a stranger's descriptor shows: header, failure and boards, of at most
  /// observed_rank_count_max ranks. Checks all that reading them relies on; what they hold may still be anything.
  /// Reading them takes no memory: pages that the file does not have yet show zeros, and go on to do so.
  /// RONDO_ERROR_MISMATCH: it is of another version of Rondo.
  [[nodiscard]] static Result<std::shared_ptr<const Segment>> observe(FileDescriptor descriptor);

  [[nodiscard]] const SegmentShape &shape() const { return shape_; }
  /// Maps the pairs and the messages, unless they are mapped. Any thread.
  Result<void> open_messages();
  /// Returns the bytes that are mapped.
  [[nodiscard]] uint64_t mapped_bytes() const;
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }
  /// Returns the bytes of the pages that any rank has touched so far.
  [[nodiscard]] Result<uint64_t> used_bytes() const;
  [[nodiscard]] SegmentHeader &header() const;
  [[nodiscard]] SharedFailure &failure() const;
  [[nodiscard]] RankBoard &board(uint32_t rank) const;
  [[nodiscard]] MessageBoard &message_board(uint32_t rank) const;
  // After open_messages():
  /// Returns what `rank` publishes of its messages with `peer`, a rank of the whole group.
  [[nodiscard]] PairBoard &pair_board(uint32_t rank, uint32_t peer) const;
  [[nodiscard]] ExchangeView exchange() const { return {at(shape_.exchange_offset()), shape_.exchange}; }
  /// Returns the connection on which `from` sends to `to`; from == to is the loop-back.
  [[nodiscard]] ConnectionView connection(uint32_t channel, uint32_t from, uint32_t to) const;
  /// Returns the connection for messages of `from` to `to`.
  [[nodiscard]] ConnectionView message_connection(uint32_t from, uint32_t to) const;

 private:
  Segment(FileDescriptor descriptor, Mapping mapping, const SegmentShape &shape)
      : descriptor_(std::move(descriptor)), mapping_(std::move(mapping)), shape_(shape) {}
  [[nodiscard]] std::byte *at(size_t offset) const { return mapping_.get().address + offset; }

  FileDescriptor descriptor_;
  Mapping mapping_;
  SegmentShape shape_;
  std::mutex opening_;  ///< guards message_mapping_
  Mapping message_mapping_;
  std::atomic<std::byte *> messages_ = nullptr;  ///< of message_mapping_; stored in open_messages()
};

[[nodiscard]] Result<Mapping> map_shared(int descriptor, size_t bytes, size_t offset = 0);

}  // namespace rondo::shm
