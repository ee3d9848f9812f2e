// SPDX-License-Identifier: Apache-2.0
// The shared memory of a communicator on one host: one memfd segment, made by the lowest rank there and handed over by
// descriptor. It has no name, takes nothing of /dev/shm's size limit and goes with the last process that maps it.
//
// Layout   SegmentHeader | SharedFailure | RankBoard[rank_count] | exchange | connections[channel][from][to]
// Pages are used only where they are touched: connections that no algorithm uses cost nothing.
#pragma once

#include <cstdint>
#include <memory>

#include "src/base/result.h"
#include "src/base/unique_handle.h"
#include "src/proto/connection.h"
#include "src/proto/exchange.h"
#include "transports/shm/board.h"
#include "transports/shm/segment_table.h"

namespace rondo::shm {

struct SegmentShape {
  uint32_t rank_count = 1;  ///< ranks of this host
  uint32_t channel_count = 1;
  ConnectionGeometry geometry;
  ExchangeGeometry exchange;

  [[nodiscard]] size_t boards_offset() const;
  [[nodiscard]] size_t exchange_offset() const;
  [[nodiscard]] size_t connections_offset() const;
  [[nodiscard]] size_t bytes() const;
};

class Segment {
 public:
  [[nodiscard]] static Result<std::shared_ptr<Segment>> create(const SegmentId &id, const SegmentShape &shape);
  /// Maps a segment that another process made; checks that it is the one that `id` and `shape` say.
  [[nodiscard]] static Result<std::shared_ptr<Segment>> attach(FileDescriptor descriptor, const SegmentId &id,
                                                               const SegmentShape &shape);

  [[nodiscard]] const SegmentShape &shape() const { return shape_; }
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }
  [[nodiscard]] SharedFailure &failure() const;
  [[nodiscard]] RankBoard &board(uint32_t rank) const;
  [[nodiscard]] ExchangeView exchange() const { return {at(shape_.exchange_offset()), shape_.exchange}; }
  /// The connection on which `from` sends to `to`; from == to is the loop-back.
  [[nodiscard]] ConnectionView connection(uint32_t channel, uint32_t from, uint32_t to) const;

 private:
  Segment(FileDescriptor descriptor, Mapping mapping, const SegmentShape &shape)
      : descriptor_(std::move(descriptor)), mapping_(std::move(mapping)), shape_(shape) {}
  [[nodiscard]] std::byte *at(size_t offset) const { return mapping_.get().address + offset; }

  FileDescriptor descriptor_;
  Mapping mapping_;
  SegmentShape shape_;
};

[[nodiscard]] Result<Mapping> map_shared(int descriptor, size_t bytes);

}  // namespace rondo::shm
