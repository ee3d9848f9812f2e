// SPDX-License-Identifier: Apache-2.0
// Computes which elements a (channel, tile, chunk) has. Host and device, a few plain numbers, no loops.
//
// Every collective works on one logical vector, of which a rank's send and recv buffers hold an interval each:
//
//     all-reduce, broadcast, reduce   `count` elements; both buffers hold all of it
//     reduce-scatter                  one block a rank; send holds all of it, recv the rank's own block
//     all-gather                      one block a rank; send holds the rank's own block, recv all of it
//
// Channels share the vector (or each block) out. A channel's part is passed over in tiles. A tile has one chunk of at
// most chunk_elements for each chunk index of the schedule:
//
//     whole    a tile is chunk_count consecutive chunks; the last tile is shared out evenly
//     blocks   chunk c of tile t is the t-th piece of block c
//
// An empty range moves no slot: both ends of a link compute the same ranges, so both skip it.
#pragma once

#include <cstdint>

#include "src/base/ceil_div.h"
#include "src/base/host_device.h"

namespace rondo {

/// Elements [begin, begin + count) of the logical vector.
struct Range {
  uint64_t begin = 0;
  uint64_t count = 0;

  bool operator==(const Range &) const = default;
};

/// Returns [first, first + size) of `all`, cut off at its end.
[[nodiscard]] RONDO_HD constexpr Range slice_of(Range all, uint64_t first, uint64_t size) {
  const uint64_t skip = first < all.count ? first : all.count, left = all.count - skip;
  return {all.begin + skip, size < left ? size : left};
}

/// Returns part `index` of the `part_count` even parts of `all`, in whole multiples of `align`, a power of two. The
/// last ones may be shorter, or empty. Number is a type in which the elements of `all` can be counted.
template <class Number = uint64_t>
[[nodiscard]] RONDO_HD constexpr Range even_part(Range all, uint32_t index, uint32_t part_count, uint32_t align) {
  const Number even = ceil_div(static_cast<Number>(all.count), Number{part_count});
  const Number size = (even + align - 1) & ~Number{align - 1};
  return slice_of(all, uint64_t{size} * index, size);
}

struct Partition {
  const Range *blocks = nullptr;  ///< null for whole; otherwise chunk_count blocks, disjoint, owned by the plan
  Range whole;                    ///< the logical vector, when blocks is null
  uint32_t chunk_count = 1;
  uint32_t channel = 0;
  uint32_t channel_count = 1;
  uint32_t align_elements = 1;  ///< a power of two; parts begin at multiples of it (relative to their block or vector)
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

  /// Returns how many tiles cover the channel's part: the most that any block needs. It loops over the blocks, so it is
  /// for building plans only.
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
