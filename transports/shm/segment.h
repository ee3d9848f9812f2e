// SPDX-License-Identifier: Apache-2.0
// This file declares the shared memory of a communicator on one host: one memfd segment. The lowest rank of the host
// makes it and passes its descriptor to the others. The segment has no path, does not count towards the limit of
// /dev/shm, and disappears with the last process that maps it.
//
// Layout   SegmentHeader | SharedFailure | RankBoard[rank_count] | MessageBoard[rank_count] | exchange |
//          connections[channel][from][to]
//          The first message or signal maps more: PairBoard[rank_count][peer] | messages[from][to] |
//          signals[from][to][signal]
// A page takes memory only once it is touched, so connections that no algorithm uses cost nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "src/base/result.h"
#include "src/base/unique_handle.h"
#include "src/links/remote_memory.h"
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
  // The time at which the segment was made, by both clocks. With a second such pair, a reader converts ticks to ns.
  uint64_t made_ticks = 0;
  uint64_t made_ns = 0;
  uint32_t channel_count = 0;
  ConnectionGeometry geometry;
  ExchangeGeometry exchange;
  uint32_t message_slot_bytes = 0;
  uint32_t message_slot_count = 0;
  uint64_t dump = 0;  ///< DumpState; this field and the following ones change
  // The ClockOffset that one rank of this host measured; a new measurement is at least as good as the one before.
  uint64_t clock_measured = 0;  ///< 1: the next two fields are valid
  uint64_t clock_offset_ns = 0;  ///< as int64_t
  uint64_t clock_uncertainty_ns = 0;
};
static_assert(sizeof(SegmentHeader) == 2 * cache_line_bytes);

/// The state of the file with the recording of a failed communicator.
enum class DumpState : uint64_t { none = 0, claimed = 1, finished = 2 };

/// The most ranks that are read from a segment of an unknown process. No host has that many ranks. A segment for them
/// has a few hundred megabytes.
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
  uint32_t group_rank_count = 0;  ///< ranks of all hosts, since messages use their numbers; 0 if all are here

  /// Returns the geometry of connections for messages, which only have slots for the protocol simple.
  [[nodiscard]] ConnectionGeometry messages() const { return {message_slot_count, message_slot_bytes, 0}; }

  [[nodiscard]] size_t boards_offset() const;
  [[nodiscard]] size_t message_boards_offset() const;
  [[nodiscard]] size_t exchange_offset() const;
  [[nodiscard]] size_t connections_offset() const;
  /// Returns how many bytes each rank maps at once. The memory for messages follows them and is mapped later.
  [[nodiscard]] size_t bytes() const;
  [[nodiscard]] uint32_t peer_count() const { return group_rank_count != 0 ? group_rank_count : rank_count; }
  // These offsets count from bytes() on, where the memory for messages begins. That memory has message_bytes() bytes,
  // so the file has bytes() + message_bytes() bytes.
  [[nodiscard]] size_t pair_boards_bytes() const;
  [[nodiscard]] size_t signals_offset() const;
  [[nodiscard]] size_t message_bytes() const;
};

class Segment {
 public:
  [[nodiscard]] static Result<std::shared_ptr<Segment>> create(const SegmentId &id, const SegmentShape &shape);
  /// Maps a segment that another process made. Checks that `id` and `shape` describe it.
  [[nodiscard]] static Result<std::shared_ptr<Segment>> attach(FileDescriptor descriptor, const SegmentId &id,
                                                               const SegmentShape &shape);
  /// Maps, for reading only, the segment of an unknown process: header, failure and boards of at most
  /// observed_rank_count_max ranks. Checks everything on which safe reading relies; the values may still be anything.
  /// Reading allocates no pages: parts of the file that lack pages now always read as zeros, even if they are written
  /// later. RONDO_ERROR_MISMATCH: the segment is from another version of Rondo.
  [[nodiscard]] static Result<std::shared_ptr<const Segment>> observe(FileDescriptor descriptor);

  [[nodiscard]] const SegmentShape &shape() const { return shape_; }
  /// Maps the pair boards and the messages, unless they are mapped already. Any thread may call it.
  Result<void> open_messages();
  /// Returns how many bytes are mapped.
  [[nodiscard]] uint64_t mapped_bytes() const;
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }
  /// Returns the size of all pages that any rank has touched so far, in bytes.
  [[nodiscard]] Result<uint64_t> used_bytes() const;
  [[nodiscard]] SegmentHeader &header() const;
  [[nodiscard]] SharedFailure &failure() const;
  [[nodiscard]] RankBoard &board(uint32_t rank) const;
  [[nodiscard]] MessageBoard &message_board(uint32_t rank) const;
  // pair_board(), signals() and message_connection() are valid after open_messages().
  /// Returns what `rank` publishes about its messages with `peer`. `peer` is a number in the whole group.
  [[nodiscard]] PairBoard &pair_board(uint32_t rank, uint32_t peer) const;
  [[nodiscard]] ExchangeView exchange() const { return {at(shape_.exchange_offset()), shape_.exchange}; }
  /// Returns the connection on which `from` sends to `to`. If `from` equals `to`, the connection is the loop-back.
  [[nodiscard]] ConnectionView connection(uint32_t channel, uint32_t from, uint32_t to) const;
  /// Returns the signal_count counters of the signals from `from` to `to`.
  [[nodiscard]] uint64_t *signals(uint32_t from, uint32_t to) const;
  /// Returns the connection for messages from `from` to `to`.
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
  std::atomic<std::byte *> messages_ = nullptr;  ///< address of message_mapping_; stored by open_messages()
};

[[nodiscard]] Result<Mapping> map_shared(int descriptor, size_t bytes, size_t offset = 0);

}  // namespace rondo::shm
