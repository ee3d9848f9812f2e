// SPDX-License-Identifier: Apache-2.0
// The builders share these helpers: a writer of schedules that names ranks instead of links, the schedule of a single
// rank, and the list of builders.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <unordered_map>
#include <vector>

#include "src/plan/schedule.h"

namespace rondo {

[[nodiscard]] constexpr uint8_t flag_if(bool condition, StepFlag flag) {
  return static_cast<uint8_t>(condition ? int{flag} : 0);
}

/// The ranks, at most two, that a step receives from or sends to. Received operands are reduced in this order.
struct Peers {
  Peers() = default;
  Peers(uint32_t first) : count(1), ranks{first, 0} {}  // NOLINT: implicit on purpose
  Peers(uint32_t first, uint32_t second) : count(2), ranks{first, second} {}
  void add(uint32_t rank, uint32_t summed_ranks = 1);
  /// Returns one peer, which sends a sum over `summed_ranks` ranks.
  [[nodiscard]] static Peers with_sum(uint32_t rank, uint32_t summed_ranks);

  uint32_t count = 0;
  uint32_t ranks[2] = {0, 0};
  uint32_t summed[2] = {1, 1};  ///< number of ranks in the sum that each peer sends, if the step reduces it
};

/// Appends steps. Each rank that a step names gets one link, which stands for both directions.
class ScheduleWriter {
 public:
  explicit ScheduleWriter(uint32_t chunk_count, uint32_t lane_count = 1);

  /// Appends a step. The caller passes `flags` without recv and send; the function adds them if `recv` and
  /// `send` have peers. If the step reduces acc, acc is a sum over `acc_ranks` ranks.
  void step(uint32_t chunk, unsigned flags, Peers recv, Peers send, uint32_t lane = 0, uint32_t acc_ranks = 1);

  /// Sends the same payload to all `ranks`, two in each step.
  void send_to_all(uint32_t chunk, unsigned flags, std::span<const uint32_t> ranks, uint32_t lane = 0);

  /// Receives a chunk from `from` into dst and forwards it to all `ranks`.
  void relay(uint32_t chunk, uint32_t from, std::span<const uint32_t> ranks, uint32_t lane = 0);

  [[nodiscard]] Schedule take();

 private:
  [[nodiscard]] LinkIndex link(uint32_t rank);

  Schedule schedule_;
  std::unordered_map<uint32_t, LinkIndex> many_;  ///< the links after the first few, indexed by rank
};

/// Returns the rank that follows `rank` at distance `offset` in the ring.
[[nodiscard]] constexpr uint32_t ring_rank(uint32_t rank, uint32_t offset, uint32_t rank_count) {
  return static_cast<uint32_t>((uint64_t{rank} + offset) % rank_count);
}

/// Returns the other ranks, beginning with the one after `rank`, so that not all ranks send to rank 0 first.
[[nodiscard]] std::vector<uint32_t> ranks_after(uint32_t rank, uint32_t rank_count);

/// Builds the schedule if there is only one rank: reductions finish its operand, others copy it unless in place.
[[nodiscard]] Schedule lone_schedule(const ScheduleArgs &args);

/// The most ranks of a schedule in which each rank has a link to every rank, including itself, and a step for each.
inline constexpr uint32_t all_links_rank_count_max = 1024;
static_assert(all_links_rank_count_max < no_link);
/// The most ranks of a schedule that has a chunk for each rank, because a chunk number has 16 bits.
inline constexpr uint32_t chunked_rank_count_max = 65'536;

/// Reduces chunk `chunk` of all ranks in rank order, ((x0 x1) x2) ..., into dst, and finishes the chunk. Each step
/// does one operation and rounds once. All ranks use this order, so their results are bit-equal. (Operations commute,
/// but do not associate.) The other ranks' operands arrive on their links. In place, the first write to dst would
/// overwrite this rank's own operand before it is used. So send_own_operand() first puts that operand into the
/// loop-back link.
void check_rank_order(ScheduleWriter &writer, const ScheduleArgs &args, uint32_t chunk);
[[nodiscard]] bool needs_own_operand_link(const ScheduleArgs &args);
void send_own_operand(ScheduleWriter &writer, const ScheduleArgs &args, uint32_t chunk);

/// Returns whether builders treat the collective as an all-reduce.
[[nodiscard]] constexpr bool is_all_reduce(rondo_collective_t collective) {  // a barrier reduces one element
  return collective == RONDO_ALL_REDUCE || collective == RONDO_BARRIER;
}
[[nodiscard]] constexpr bool is_of_whole_vectors(rondo_collective_t collective) {
  return is_all_reduce(collective) || collective == RONDO_BROADCAST || collective == RONDO_REDUCE;
}
[[nodiscard]] constexpr bool is_of_blocks_or_whole(rondo_collective_t collective) {
  return is_of_whole_vectors(collective) || collective == RONDO_REDUCE_SCATTER || collective == RONDO_ALL_GATHER;
}

// Each builder has a file of its own. X_has() returns whether build_x() has the collective.
[[nodiscard]] Schedule build_ring(const ScheduleArgs &args);
[[nodiscard]] bool ring_has(rondo_collective_t collective);
[[nodiscard]] Schedule build_tree(const ScheduleArgs &args);
[[nodiscard]] bool tree_has(rondo_collective_t collective);
[[nodiscard]] Schedule build_halving_doubling(const ScheduleArgs &args);
[[nodiscard]] bool halving_doubling_has(rondo_collective_t collective);
[[nodiscard]] Schedule build_one_shot(const ScheduleArgs &args);
[[nodiscard]] bool one_shot_has(rondo_collective_t collective);
/// Builds the lanes of a collective that exchanges blocks (src/plan/block_lanes.h). A chunk is a block.
[[nodiscard]] Schedule build_blocks(const ScheduleArgs &args);
[[nodiscard]] Schedule build_two_shot(const ScheduleArgs &args);
[[nodiscard]] bool two_shot_has(rondo_collective_t collective);
[[nodiscard]] Schedule build_hierarchical(const ScheduleArgs &args);
[[nodiscard]] bool hierarchical_has(rondo_collective_t collective);
[[nodiscard]] Schedule build_hierarchical_tree(const ScheduleArgs &args);
[[nodiscard]] bool hierarchical_tree_has(rondo_collective_t collective);

/// The fewest slots of a link with which the schedules of every builder run. With one slot, a ring deadlocks.
inline constexpr uint32_t slot_count_min = 2;

/// Returns the most slots that a chunk may take if links have `slot_count` slots (at least slot_count_min). Within this
/// limit no schedule of any builder deadlocks. In a ring, and in the loop-back link of a two-shot reduce, a chunk stays
/// in the link while the next move needs one more slot. A test proves that the limit suffices, and that one slot more
/// deadlocks (tests/unit/plan_verifier_test.cpp). Tree needs no limit. For halving-doubling and the other direct
/// algorithms, slot_count would suffice as the limit.
[[nodiscard]] constexpr uint32_t slots_per_chunk_max(uint32_t slot_count) {
  return slot_count < slot_count_min ? 0 : slot_count - 1;
}

}  // namespace rondo
