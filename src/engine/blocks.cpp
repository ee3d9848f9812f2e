// SPDX-License-Identifier: Apache-2.0
#include "src/engine/blocks.h"

#include "src/plan/block_lanes.h"

namespace rondo {

Blocks::Blocks(const Signature &call, const BlockLists *lists, uint32_t rank)
    : traits_(traits_of(static_cast<rondo_collective_t>(call.collective))),
      lists_(lists),
      rank_(rank),
      root_(call.root),
      block_bytes_(call.count * rondo_type_size(static_cast<rondo_type_t>(call.type))) {}

bool Blocks::sends_to(uint32_t peer) const {
  return moves_block(traits_, rank_, peer, root_);
}

bool Blocks::receives_from(uint32_t peer) const {
  return moves_block(traits_, peer, rank_, root_);
}

Block Blocks::to(uint32_t peer) const {
  if (lists_ != nullptr) return lists_->sends[peer];
  return {traits_.source == BufferLayout::own_block ? 0 : peer * block_bytes_, block_bytes_};
}

Block Blocks::from(uint32_t peer) const {
  if (lists_ != nullptr) return lists_->receives[peer];
  return {traits_.target == BufferLayout::own_block ? 0 : peer * block_bytes_, block_bytes_};
}

}  // namespace rondo
