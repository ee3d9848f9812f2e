// SPDX-License-Identifier: Apache-2.0
// Helpers that the builders share: a writer of schedules in terms of ranks, not links, and the schedule of a lone rank.
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

/// At most two ranks: where a step receives from, in reduction order, or sends to.
struct Peers {
  Peers() = default;
  Peers(uint32_t first) : count(1), ranks{first, 0} {}  // NOLINT: implicit on purpose
  Peers(uint32_t first, uint32_t second) : count(2), ranks{first, second} {}
  void add(uint32_t rank, uint32_t summed_ranks = 1);
  /// Returns one peer that sends a sum over that many ranks.
  [[nodiscard]] static Peers with_sum(uint32_t rank, uint32_t summed_ranks);

  uint32_t count = 0;
  uint32_t ranks[2] = {0, 0};
  uint32_t summed[2] = {1, 1};  ///< the ranks whose operands are in what each sends, if the step reduces it
};

/// Appends steps and gives each rank that they name a link, one for both directions.
class ScheduleWriter {
 public:
  explicit ScheduleWriter(uint32_t chunk_count, uint32_t lane_count = 1);

  /// `flags` without recv and send: these follow from the peers. If the step reduces acc, that holds the operands of
  /// `acc_ranks` ranks.
  void step(uint32_t chunk, unsigned flags, Peers recv, Peers send, uint32_t lane = 0, uint32_t acc_ranks = 1);

  /// Sends the same payload to all of `ranks`, two a step.
  void send_to_all(uint32_t chunk, unsigned flags, std::span<const uint32_t> ranks, uint32_t lane = 0);

  /// Receives a chunk from `from` into dst and sends it on to all of `ranks`.
  void relay(uint32_t chunk, uint32_t from, std::span<const uint32_t> ranks, uint32_t lane = 0);

  [[nodiscard]] Schedule take();

 private:
  [[nodiscard]] LinkIndex link(uint32_t rank);

  Schedule schedule_;
  std::unordered_map<uint32_t, LinkIndex> many_;  ///< by rank; links beyond the first few
};

/// Returns rank + offset, round the ring.
[[nodiscard]] constexpr uint32_t ring_rank(uint32_t rank, uint32_t offset, uint32_t rank_count) {
  return static_cast<uint32_t>((uint64_t{rank} + offset) % rank_count);
}

/// Returns the other ranks, beginning after `rank`, so that the ranks do not all turn to rank 0 first.
[[nodiscard]] std::vector<uint32_t> ranks_after(uint32_t rank, uint32_t rank_count);

/// Builds the schedule of a group of one. It is a copy if send and recv differ; a reduction is complete at once.
[[nodiscard]] Schedule lone_schedule(const ScheduleArgs &args);

/// Most ranks of a schedule that has a link to every other rank and to itself, and as many steps.
inline constexpr uint32_t all_links_rank_count_max = 1024;
static_assert(all_links_rank_count_max < no_link);
/// Most ranks of a schedule that has a chunk a rank: a chunk is 16 bits.
inline constexpr uint32_t chunked_rank_count_max = 65'536;

/// Reduces chunk `chunk` of all ranks in rank order, ((x0 x1) x2) ..., into dst, and finishes it. A step does one
/// operation and so one rounding. The order is the same on every rank, so results are bit-equal (operations commute,
/// they do not associate). The others' operands come from their links. In place the first dst would overwrite this
/// rank's own operand before its turn. Then the operand waits in the loop-back link, where send_own_operand() put it
/// before.
void check_rank_order(ScheduleWriter &writer, const ScheduleArgs &args, uint32_t chunk);
[[nodiscard]] bool needs_own_operand_link(const ScheduleArgs &args);
void send_own_operand(ScheduleWriter &writer, const ScheduleArgs &args, uint32_t chunk);

/// The collectives that builders know so far. A builder that learns another one says so in its own function below.
[[nodiscard]] constexpr bool is_all_reduce(rondo_collective_t collective) {  // a barrier reduces one element
  return collective == RONDO_ALL_REDUCE || collective == RONDO_BARRIER;
}
[[nodiscard]] constexpr bool is_of_whole_vectors(rondo_collective_t collective) {
  return is_all_reduce(collective) || collective == RONDO_BROADCAST || collective == RONDO_REDUCE;
}
[[nodiscard]] constexpr bool is_of_blocks_or_whole(rondo_collective_t collective) {
  return is_of_whole_vectors(collective) || collective == RONDO_REDUCE_SCATTER || collective == RONDO_ALL_GATHER;
}

// The builders, one file each, and which collectives they have; algorithm.cpp lists them.
[[nodiscard]] Schedule build_ring(const ScheduleArgs &args);
[[nodiscard]] bool ring_has(rondo_collective_t collective);
[[nodiscard]] Schedule build_tree(const ScheduleArgs &args);
[[nodiscard]] bool tree_has(rondo_collective_t collective);
[[nodiscard]] Schedule build_halving_doubling(const ScheduleArgs &args);
[[nodiscard]] bool halving_doubling_has(rondo_collective_t collective);
[[nodiscard]] Schedule build_one_shot(const ScheduleArgs &args);
[[nodiscard]] bool one_shot_has(rondo_collective_t collective);
[[nodiscard]] Schedule build_two_shot(const ScheduleArgs &args);
[[nodiscard]] bool two_shot_has(rondo_collective_t collective);
[[nodiscard]] Schedule build_hierarchical(const ScheduleArgs &args);
[[nodiscard]] bool hierarchical_has(rondo_collective_t collective);
[[nodiscard]] Schedule build_hierarchical_tree(const ScheduleArgs &args);
[[nodiscard]] bool hierarchical_tree_has(rondo_collective_t collective);

}  // namespace rondo
