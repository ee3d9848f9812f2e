// SPDX-License-Identifier: Apache-2.0
// What the kernels of the protocol direct share among themselves: one operation, and how its rank waits.
#pragma once

#include <algorithm>
#include <cstring>

#include "src/engine/direct.h"
#include "src/engine/reduction/stream_copy.h"
#include "src/proto/memory.h"

namespace rondo {

/// One operation. Chunks are what is passed over at a time; rank r reduces the r-th part of each.
struct ExchangeEnd::Job {
  const Buffers &buffers;
  const HostReducer &reducer;
  Waiter &waiter;
  uint64_t count;
  uint32_t element_bytes;
  uint32_t rank_count;
  uint64_t cache_bytes;
  bool single_steps;
  uint64_t align_elements;
  uint64_t chunk_elements;           ///< two_shot: of a whole chunk
  const Partition *ring = nullptr;   ///< ring: the schedule's own tiles
  bool cheap = false;                ///< ring: memory takes longer than arithmetic
  const Partition *order = nullptr;  ///< a ring without accumulators: its tiles, which say in what order to reduce
  bool all_lend = false;             ///< every rank, both buffers; known once they have met
  bool all_apart = false;            ///< every rank is out of place; likewise
  bool sums_past_caches = false;     ///< those that are reduced right into recv

  [[nodiscard]] uint64_t bytes() const { return count * element_bytes; }
  [[nodiscard]] bool apart() const { return buffers.send.data != buffers.recv.data; }
  [[nodiscard]] bool outgrows_caches() const { return bytes() >= cache_bytes; }
  /// In place the lines of recv are in the cache already, since they were just read.
  [[nodiscard]] bool streams() const { return apart() && outgrows_caches(); }
  [[nodiscard]] uint64_t chunk_count() const {
    return ring != nullptr ? ring->tile_count : (count + chunk_elements - 1) / chunk_elements;
  }
  /// Elements of chunk `chunk` of a two_shot.
  [[nodiscard]] Range chunk_range(uint64_t chunk) const {
    const uint64_t begin = chunk * chunk_elements;
    return {begin, std::min(chunk_elements, count - begin)};
  }
  /// The part of `chunk` that `rank` reduces.
  [[nodiscard]] Range part(uint64_t chunk, uint32_t rank) const {
    if (ring != nullptr) return ring->range(chunk, rank);
    const Range all = chunk_range(chunk);
    const uint64_t size =
        ((all.count + rank_count - 1) / rank_count + align_elements - 1) / align_elements * align_elements;
    const uint64_t begin = std::min(size * rank, all.count);
    return {all.begin + begin, std::min(size, all.count - begin)};
  }
  /// Calls reduce(piece, rank) for the pieces of `range` that differ in whose operand is the first: the others follow
  /// in rank order, behind the last rank the first.
  template <class Reduction>
  void for_each_order(Range range, Reduction reduce) const {
    if (order == nullptr) return reduce(range, 0u);
    const uint64_t end = range.begin + range.count, tile_elements = order->chunk_elements * rank_count;
    for (uint64_t tile = range.begin / tile_elements; tile * tile_elements < end; ++tile) {
      for (uint32_t owner = 0; owner < rank_count; ++owner) {
        const Range all = order->range(tile, owner);
        const uint64_t begin = std::max(all.begin, range.begin), piece_end = std::min(all.begin + all.count, end);
        if (begin < piece_end) reduce(Range{begin, piece_end - begin}, (owner + 1) % rank_count);
      }
    }
  }
  void copy_out(std::byte *to, const std::byte *from, size_t size) const {
    if (streams())
      stream_copy(to, from, size);
    else
      std::memcpy(to, from, size);
  }
};

namespace direct {

inline constexpr RunOutcome stopped{RunOutcome::Kind::stopped, Fault::none, 0};

inline bool done(const RunOutcome &outcome) { return outcome.kind == RunOutcome::Kind::done; }

/// False: the waiter says stop.
template <class Ready>
bool wait_until(Waiter &waiter, Ready ready) {
  for (uint32_t poll = 0; poll < waiter.poll_count(); ++poll)
    if (ready()) return true;
  while (!ready())
    if (!waiter.idle()) return false;
  waiter.moved();
  return true;
}

}  // namespace direct
}  // namespace rondo
