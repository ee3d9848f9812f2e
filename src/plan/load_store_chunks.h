// SPDX-License-Identifier: Apache-2.0
// This class divides a vector into chunks for load_store, and each chunk into the parts that ranks reduce. The kernel
// on host memory and the program (load_store_program.h) use it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/base/arithmetic.h"
#include "src/proto/exchange.h"
#include "src/proto/partition.h"

namespace rondo::load_store {

class Chunks {
 public:
  /// Takes the plan's `tiles`, which determine a ring's order of reductions. They must outlive this object.
  Chunks(const Partition &tiles, uint64_t element_count, uint32_t rank_count)
      : tiles_(tiles), element_count_(element_count), rank_count_(rank_count), size_(tiles.chunk_elements) {}

  [[nodiscard]] uint64_t count() const { return ceil_div(element_count_, size_); }
  [[nodiscard]] Range range(uint64_t chunk) const { return slice_of({0, element_count_}, chunk * size_, size_); }
  /// Returns the part of `chunk` that `rank` reduces.
  [[nodiscard]] Range part(uint64_t chunk, uint32_t rank) const {
    return even_part(range(chunk), rank, rank_count_, tiles_.align_elements);
  }

  /// Returns the factor by which chunks grow if all ranks export both buffers, so that peers access them directly. Then
  /// no area of the exchange limits a chunk. Larger chunks need fewer switches between ranks, which helps most if ranks
  /// share cores. All ranks know of the same exports, so all get the same factor.
  [[nodiscard]] static uint64_t exported_factor(bool share_cores) { return share_cores ? 16 : 4; }
  void enlarge(uint64_t factor) { size_ *= factor; }
  /// Makes chunks of whole tiles: as many tiles as fit into `bytes`, but at least one.
  void set_bytes(uint64_t bytes, uint32_t element_bytes) {
    size_ = std::max<uint64_t>(bytes / (tile_elements() * element_bytes), 1) * tile_elements();
  }
  void set_single() { size_ = element_count_; }

  /// Calls reduce(piece, rank) for the pieces of `range`. In each piece, the operand of `rank` is the first in the
  /// ring's order. The other operands follow in rank order, and rank 0 follows the last rank.
  template <class Reduction>
  void for_each_ring_order(Range range, const Reduction &reduce) const {
    const uint64_t end = range.begin + range.count;
    for (uint64_t tile = range.begin / tile_elements(); tile * tile_elements() < end; ++tile) {
      for (uint32_t owner = 0; owner < rank_count_; ++owner) {
        const Range all = tiles_.range(tile, owner);
        const uint64_t begin = std::max(all.begin, range.begin), piece_end = std::min(all.begin + all.count, end);
        if (begin < piece_end) reduce(Range{begin, piece_end - begin}, (owner + 1) % rank_count_);
      }
    }
  }

 private:
  [[nodiscard]] uint64_t tile_elements() const { return tiles_.chunk_elements * rank_count_; }

  const Partition &tiles_;
  const uint64_t element_count_;
  const uint32_t rank_count_;
  uint64_t size_;  ///< elements of a whole chunk; in a ring of accumulators a chunk is a tile
};

}  // namespace rondo::load_store
