// SPDX-License-Identifier: Apache-2.0
// This file describes the blocks of the collectives that exchange blocks: all_to_all, gather, scatter.
#pragma once

#include <cstdint>
#include <vector>

#include "src/plan/block_lanes.h"
#include "src/plan/collective.h"
#include "src/plan/plan.h"

namespace rondo {

/// A range of bytes of a buffer.
struct Block {
  uint64_t begin_bytes = 0;
  uint64_t bytes = 0;
};

/// The blocks of a _v collective, as one rank has called it. An entry without a transfer is unused.
struct BlockLists {
  std::vector<Block> sends;     ///< indexed by the rank that receives
  std::vector<Block> receives;  ///< indexed by the rank that sends
  uint64_t total_bytes = 0;     ///< sum of the sizes, for the statistics
};

/// The blocks that one call of a rank sends to each rank, and receives from each rank.
class Blocks {
 public:
  /// Keeps `lists`: the blocks of a _v collective, which must outlive this object, or null for other collectives.
  Blocks(const Signature &call, const BlockLists *lists, uint32_t rank)
      : traits_(traits_of(static_cast<rondo_collective_t>(call.collective))),
        lists_(lists),
        rank_(rank),
        root_(call.root),
        block_bytes_(call.count * rondo_type_size(static_cast<rondo_type_t>(call.type))) {}

  [[nodiscard]] bool sends_to(uint32_t peer) const { return moves_block(traits_, rank_, peer, root_); }
  [[nodiscard]] bool receives_from(uint32_t peer) const { return moves_block(traits_, peer, rank_, root_); }
  [[nodiscard]] Block to(uint32_t peer) const {
    if (lists_ != nullptr) return lists_->sends[peer];
    return {traits_.source == BufferLayout::own_block ? 0 : peer * block_bytes_, block_bytes_};
  }
  [[nodiscard]] Block from(uint32_t peer) const {
    if (lists_ != nullptr) return lists_->receives[peer];
    return {traits_.target == BufferLayout::own_block ? 0 : peer * block_bytes_, block_bytes_};
  }
  /// Returns whether a call in place sends from the range into which it receives.
  [[nodiscard]] bool exchanges_in_place() const { return traits_.source == traits_.target && lists_ == nullptr; }

 private:
  const Collective &traits_;
  const BlockLists *const lists_;
  const uint32_t rank_;
  const uint32_t root_;
  const uint64_t block_bytes_;
};

}  // namespace rondo
