// SPDX-License-Identifier: Apache-2.0
// In a ring, each rank receives from its predecessor and sends to its successor. A ring uses the bandwidth best, and
// its latency grows with the number of ranks.
//
//     n = 4, chunk 0 of an all-reduce:   1 ---> 2 ---> 3 ---> 0 ---> 1 ---> 2 ---> 3
//                                        |  summed: x0(x3(x2 x1))    |    shared     |
//
// In n hops a chunk is summed, and the sum ends on the rank that has the chunk's number. In n - 1 more hops all ranks
// get the sum. At hop h rank p handles chunk p - 1 - h (mod n), which its predecessor handled at hop h - 1. Each flag
// is set for an interval of hops. `src` is set for the first n hops, so every operand is used once. At hop n - 1, the
// last of them, each rank finishes the sum of a chunk.
//
// Reduce-scatter is the first half of an all-reduce, and all-gather the second. Broadcast and reduce are an open chain
// with one chunk in each tile; the tiles are pipelined.
//
// A rank's position in the ring is its number if the ranks of each host are consecutive. Otherwise positions go host by
// host, so that the ring leaves each host once. A chunk has the number of the rank on which it ends.
//
// Slots: while all ranks are at the same hop, every link holds a whole chunk, and a hop needs one more slot to proceed.
// So a ring deadlocks unless slot_count > slots of a chunk. slot_count is at least 2.
#include <algorithm>
#include <cassert>

#include "src/plan/hierarchical/layout.h"

namespace rondo {
namespace {

struct Ring {
  explicit Ring(const ScheduleArgs &args)
      : rank_count(args.rank_count), order(ring_order(args)),
        position(order.empty() ? args.rank
                               : static_cast<uint32_t>(std::find(order.begin(), order.end(), args.rank) -
                                                       order.begin())),
        previous(at(rank_count - 1)), next(at(1)) {}

  /// Returns the rank `offset` positions after this one.
  [[nodiscard]] uint32_t at(uint32_t offset) const {
    const uint32_t found = ring_rank(position, offset, rank_count);
    return order.empty() ? found : order[found];
  }

  /// Appends a step. If the step receives, it receives a sum over `summed` ranks.
  void step(ScheduleWriter &writer, uint32_t chunk, unsigned flags, bool recv, bool send, uint32_t summed = 1) const {
    writer.step(chunk, flags, recv ? Peers::with_sum(previous, summed) : Peers(), send ? Peers(next) : Peers());
  }

  uint32_t rank_count;
  std::vector<uint32_t> order;  ///< rank at each position; empty if each rank is at the position of its number
  uint32_t position, previous, next;
};

/// Builds hops 0 to last_hop of the full circle that the head of this file draws.
Schedule reduce_round(const Ring &ring, uint32_t last_hop) {
  ScheduleWriter writer(ring.rank_count);
  const uint32_t sum_hop = ring.rank_count - 1;
  for (uint32_t hop = 0; hop <= last_hop; ++hop) {
    const unsigned flags = flag_if(hop <= sum_hop, step_src) | flag_if(hop >= sum_hop, step_dst) |
                           flag_if(hop == sum_hop, step_finish);
    const uint32_t chunk = ring.at(2 * ring.rank_count - 1 - hop);
    ring.step(writer, chunk, flags, hop > 0, hop < last_hop, hop);
  }
  return writer.take();
}

/// Builds an all-gather. At hop h, rank p handles block p - h, so its own block is first.
Schedule all_gather(const Ring &ring, bool in_place) {
  ScheduleWriter writer(ring.rank_count);
  for (uint32_t hop = 0; hop < ring.rank_count; ++hop) {
    const unsigned flags = hop > 0 ? step_dst : step_src | flag_if(!in_place, step_dst);
    const uint32_t chunk = ring.at(ring.rank_count - hop);
    ring.step(writer, chunk, flags, hop > 0, hop + 1 < ring.rank_count);
  }
  return writer.take();
}

/// Builds the chain root -> root + 1 -> ... -> root - 1.
Schedule broadcast(const Ring &ring, uint32_t root, bool in_place) {
  ScheduleWriter writer(1);
  const bool is_root = ring.at(0) == root;
  const unsigned flags = is_root ? step_src | flag_if(!in_place, step_dst) : step_dst;
  ring.step(writer, 0, flags, !is_root, ring.next != root);
  return writer.take();
}

/// Builds the chain root + 1 -> root + 2 -> ... -> root.
Schedule reduce(const Ring &ring, uint32_t root) {
  ScheduleWriter writer(1);
  uint32_t hops_left = 0;
  while (ring.at(hops_left) != root) ++hops_left;
  const bool is_root = hops_left == 0;
  const unsigned flags = step_src | (is_root ? step_dst | step_finish : 0);
  ring.step(writer, 0, flags, ring.previous != root, !is_root, ring.rank_count - 1 - hops_left);
  return writer.take();
}

}  // namespace

bool ring_has(rondo_collective_t collective) { return is_of_blocks_or_whole(collective); }

Schedule build_ring(const ScheduleArgs &args) {
  assert(args.rank < args.rank_count && args.rank_count <= chunked_rank_count_max);
  if (args.rank_count == 1) return lone_schedule(args);
  const Ring ring(args);
  switch (args.collective) {
    case RONDO_REDUCE_SCATTER: return reduce_round(ring, args.rank_count - 1);
    case RONDO_ALL_GATHER: return all_gather(ring, args.in_place);
    case RONDO_BROADCAST: return broadcast(ring, args.root, args.in_place);
    case RONDO_REDUCE: return reduce(ring, args.root);
    default: return reduce_round(ring, 2 * args.rank_count - 2);  // an all-reduce or a barrier
  }
}

}  // namespace rondo
