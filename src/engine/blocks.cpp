// SPDX-License-Identifier: Apache-2.0
#include "src/engine/blocks.h"

#include <string>

#include "src/engine/watch.h"
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

Error differing_block(const Signature &call, uint64_t number, uint32_t rank, uint32_t peer, uint64_t sent_bytes,
                      uint64_t expected_bytes) {
  const uint64_t element_bytes = rondo_type_size(static_cast<rondo_type_t>(call.type));
  const std::string own = std::to_string(rank), other = std::to_string(peer);
  Error error{RONDO_ERROR_MISMATCH,
              "operation " + std::to_string(number) + " (" + describe(call) + ") differs between ranks: rank " + other +
                  " sends rank " + own + " " + std::to_string(sent_bytes / element_bytes) + " elements, rank " + own +
                  " expects " + std::to_string(expected_bytes / element_bytes) +
                  "; give both ranks the same count for this block" + what_now};
  error.rank = static_cast<int32_t>(rank);
  error.peer = static_cast<int32_t>(peer);
  error.operation = number;
  return error;
}

}  // namespace rondo
