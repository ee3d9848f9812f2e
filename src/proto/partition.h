// SPDX-License-Identifier: Apache-2.0
// This file computes which elements belong to a (channel, tile, chunk), on host and device, without loops.
//
// Every collective works on one logical vector. A rank's send and recv buffers each hold an interval of it:
//
//     all-reduce, broadcast, reduce   `count` elements; both buffers hold all of it
//     reduce-scatter                  one block for each rank; send holds the vector, recv the rank's own block
//     all-gather                      one block for each rank; send holds the rank's own block, recv the vector
//
// Channels divide the vector, or each block, into parts. A channel's part is processed in tiles. For each chunk index
// of the schedule, a tile has one chunk of at most chunk_elements:
//
//     whole    a tile is chunk_count consecutive chunks; the last tile is divided evenly
//     blocks   chunk c of tile t is the t-th piece of block c
//
// An empty range moves no slot. Both ends of a link compute the same ranges, so both ends skip an empty one.
#pragma once

#include <cstdint>

#include "src/base/arithmetic.h"
#include "src/base/host_device.h"

namespace rondo {

/// A range of elements [begin, begin + count) of the logical vector.
struct Range {
  uint64_t begin = 0;
  uint64_t count = 0;

  bool operator==(const Range &) const = default;
};

/// Returns [first, first + size) of `all`, cut off at the end of `all`.
[[nodiscard]] RONDO_HD constexpr Range slice_of(Range all, uint64_t first, uint64_t size) {
  const uint64_t skip = first < all.count ? first : all.count, left = all.count - skip;
  return {all.begin + skip, size < left ? size : left};
}

/// Returns part `index` when `all` is divided into `part_count` even parts. Parts are whole multiples of `align`, a
/// power of two, so the last parts may be shorter or empty. Number is a type that can count the elements of `all`.
template <class Number = uint64_t>
[[nodiscard]] RONDO_HD constexpr Range even_part(Range all, uint32_t index, uint32_t part_count, uint32_t align) {
  const Number even = ceil_div(static_cast<Number>(all.count), Number{part_count});
  const Number size = (even + align - 1) & ~Number{align - 1};
  return slice_of(all, uint64_t{size} * index, size);
}

struct Partition {
  const Range *blocks = nullptr;  ///< null for `whole`; otherwise chunk_count disjoint blocks, which the plan owns
  Range whole;                    ///< the logical vector, if blocks is null
  uint32_t chunk_count = 1;
  uint32_t channel = 0;
  uint32_t channel_count = 1;
  uint32_t align_elements = 1;  ///< a power of two; parts begin at its multiples (relative to block or vector)
  uint64_t chunk_elements = 1;  ///< a multiple of align_elements
  uint64_t tile_count = 0;      ///< set by count_tiles()

  /// Returns this channel's part of `all`.
  [[nodiscard]] RONDO_HD Range channel_part(Range all) const {
    return even_part(all, channel, channel_count, align_elements);
  }

  [[nodiscard]] RONDO_HD Range range(uint64_t tile, uint32_t chunk) const {
    if (blocks != nullptr) return slice_of(channel_part(blocks[chunk]), tile * chunk_elements, chunk_elements);
    const uint64_t tile_elements = chunk_elements * chunk_count;
    const Range in_tile = slice_of(channel_part(whole), tile * tile_elements, tile_elements);
    return even_part(in_tile, chunk, chunk_count, align_elements);
  }

  /// Returns the number of tiles that cover the channel's part: the most tiles that any block needs. It loops over the
  /// blocks, so call it only to build plans.
  [[nodiscard]] uint64_t count_tiles() const {
    if (blocks == nullptr) return ceil_div(channel_part(whole).count, chunk_elements * chunk_count);
    uint64_t most = 0;
    for (uint32_t chunk = 0; chunk < chunk_count; ++chunk) {
      const uint64_t tiles = ceil_div(channel_part(blocks[chunk]).count, chunk_elements);
      most = tiles > most ? tiles : most;
    }
    return most;
  }
};

}  // namespace rondo
