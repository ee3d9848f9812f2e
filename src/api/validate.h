// SPDX-License-Identifier: Apache-2.0
// These functions check the arguments of a collective. They refuse by RONDO_ERROR_INVALID_ARGUMENT and a reason.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "src/base/arithmetic.h"
#include "src/base/result.h"

namespace rondo {

// The inline checks below return these errors if they refuse an argument.
[[nodiscard]] Error refused_buffer(const char *name, const void *buffer, size_t bytes);
[[nodiscard]] Error refused_overlap();
[[nodiscard]] Error refused_peer(int peer, uint32_t rank_count);
/// Returns the error for a call with type `called` whose operation `op` was made for type `made`.
[[nodiscard]] Error refused_type(rondo_op_t op, rondo_type_t made, rondo_type_t called);

/// Returns the bytes of `count` elements. It fails for unknown types and for overflow.
[[nodiscard]] Result<size_t> bytes_of(size_t count, rondo_type_t type);
/// Returns bytes * rank_count. It fails for overflow.
[[nodiscard]] Result<size_t> times_ranks(size_t bytes, uint32_t rank_count);
/// Checks that `op` is an operation of Rondo's own, such as RONDO_SUM.
[[nodiscard]] Result<void> check_op(rondo_op_t op);
[[nodiscard]] Result<void> check_root(int root, uint32_t rank_count);
/// Checks the number of a rank that joins a communicator of `size` ranks.
[[nodiscard]] Result<void> check_rank(int rank, int size);
/// Checks that `buffer` is not null (unless `bytes` is 0) and lies within the address space.
[[nodiscard]] inline Result<void> check_buffer(const char *name, const void *buffer, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(buffer);
  if (bytes == 0 || (buffer != nullptr && checked_add<uintptr_t>(begin, bytes))) return {};
  return refused_buffer(name, buffer, bytes);
}
/// Checks the peer of a message or of a one-sided operation.
[[nodiscard]] inline Result<void> check_peer(int peer, uint32_t rank_count) {
  if (peer >= 0 && static_cast<uint32_t>(peer) < rank_count) return {};
  return refused_peer(peer, rank_count);
}
/// Checks that `inner` equals `in_place`, or does not overlap `outer`.
[[nodiscard]] inline Result<void> check_overlap(const void *outer, size_t outer_bytes, const void *inner,
                                                size_t inner_bytes, const void *in_place) {
  if (inner == in_place || inner_bytes == 0 || outer_bytes == 0) return {};
  const auto outer_begin = reinterpret_cast<uintptr_t>(outer);
  const auto inner_begin = reinterpret_cast<uintptr_t>(inner);
  if (inner_begin + inner_bytes <= outer_begin || outer_begin + outer_bytes <= inner_begin) return {};
  return refused_overlap();
}

/// The blocks of a call, in the buffer that has the blocks of all ranks. A vector without blocks sets only its sizes.
struct BlockLayout {
  size_t total_count = 0;  ///< number of elements of all blocks
  size_t end_bytes = 0;    ///< bytes from the begin of the buffer to the end of the last block
  size_t own_bytes = 0;
  size_t own_offset_bytes = 0;
  uint64_t hash = 0;  ///< hash of counts and displacements, which is never 0; 0 if all blocks have the same size
};

/// Checks that no two blocks overlap. The caller has checked that all blocks end within the address space.
[[nodiscard]] Result<void> check_disjoint(const size_t *counts, const size_t *displacements, uint32_t rank_count);
/// Returns the error that `what` has more elements than the address space holds.
[[nodiscard]] Error refused_overflow(const std::string &what);
/// Lays out consecutive blocks of `count` elements each. It fails for unknown types and for overflow.
[[nodiscard]] Result<BlockLayout> even_blocks(size_t count, uint32_t rank_count, uint32_t rank, rondo_type_t type);
/// The extent, in elements, of blocks with given counts and displacements.
struct BlockExtent {
  size_t total_count = 0;  ///< number of elements of all blocks
  size_t end = 0;          ///< elements from the begin of the buffer to the end of the last block
};

/// Returns the error for a block of rank `peer` that exceeds the address space. `name` is the name of the counts.
[[nodiscard]] Error refused_block(const char *name, uint32_t peer, size_t count, size_t begin);

/// Calls take(peer, begin, count) for each block. `begin` and `count` are in elements. If `displacements` is null, the
/// blocks follow each other. An empty block begins at 0, whatever its displacement is. The function fails for NULL
/// counts, unknown types and overflow.
template <class Take>
[[nodiscard]] Result<BlockExtent> lay_out(const char *name, const size_t *counts, const size_t *displacements,
                                          uint32_t rank_count, rondo_type_t type, const Take &take) {
  if (counts == nullptr) return invalid_argument(std::string(name) + " is NULL; it must have an entry for each rank");
  RONDO_TRY_ASSIGN(const size_t size, bytes_of(1, type));
  BlockExtent extent;
  for (uint32_t peer = 0; peer < rank_count; ++peer) {
    const size_t count = counts[peer];
    size_t begin = displacements != nullptr ? displacements[peer] : extent.total_count;
    if (count == 0) begin = 0;
    const auto stop = checked_add(begin, count);
    const auto total = checked_add(extent.total_count, count);
    if (!stop || !total || !checked_mul(*stop, size) || !checked_mul(*total, size))
      return refused_block(name, peer, count, begin);
    take(peer, begin, count);
    extent.total_count = *total;
    extent.end = std::max(extent.end, *stop);
  }
  return extent;
}

/// Checks the blocks of `counts`, as lay_out() does. The function also fails if blocks overlap.
[[nodiscard]] Result<BlockLayout> check_blocks(const size_t *counts, const size_t *displacements, uint32_t rank_count,
                                               uint32_t rank, rondo_type_t type);

[[nodiscard]] inline const void *advance_bytes(const void *buffer, size_t bytes) {
  return reinterpret_cast<const void *>(reinterpret_cast<uintptr_t>(buffer) + bytes);
}

}  // namespace rondo
