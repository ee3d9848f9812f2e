// SPDX-License-Identifier: Apache-2.0
// This all-reduce halves recursively, then doubles. It takes 2 log2(n) exchanges and moves no more bytes than a ring.
//
//     n = 4, chunk_count 4; rank r first gets the sum of chunk r, then the exchanges run backwards
//     distance 2   0 <-> 2, 1 <-> 3    each sends the half that the other keeps: 0 sends 2 and 3, keeps 0 and 1
//     distance 1   0 <-> 1, 2 <-> 3    0 sends 1, keeps 0: complete
//     distance 1   0 <-> 1, 2 <-> 3    0 sends 0, gets 1
//     distance 2   0 <-> 2, 1 <-> 3    0 sends 0 and 1, gets 2 and 3
//
// V(r) is rank r's sum so far, at first x(r). At distance d, rank r adds V(r xor d) to it in the chunks that it keeps.
//
// The number n of ranks is arbitrary. Let m be the largest power of two not above n. Rank m + i first sends its operand
// to rank i, which adds it to V(i). Rank m + i takes no part in the exchanges, and receives the result at the end.
//
// Slots: in an exchange, a rank sends a chunk and receives a chunk in turns, so each link needs room for one chunk.
#include <bit>
#include <cassert>

#include "src/base/arithmetic.h"
#include "src/plan/build.h"

namespace rondo {
namespace {

/// The steps of one of the m ranks that exchange.
class Exchanger {
 public:
  Exchanger(const ScheduleArgs &args, uint32_t core_count)
      : writer_(core_count), rank_(args.rank), rank_count_(args.rank_count), core_count_(core_count),
        extra_(core_count + rank_), has_extra_(extra_ < args.rank_count) {}

  [[nodiscard]] Schedule build() {
    if (has_extra_)
      for (uint32_t chunk = 0; chunk < core_count_; ++chunk) writer_.step(chunk, step_src | step_dst, extra_, {});
    for (uint32_t distance = core_count_ / 2; distance > 0; distance /= 2) halve(distance);
    for (uint32_t distance = 1; distance < core_count_; distance *= 2) double_up(distance);
    if (has_extra_)
      for (uint32_t chunk = 0; chunk < core_count_; ++chunk) writer_.step(chunk, step_acc, {}, extra_);
    return writer_.take();
  }

 private:
  /// Exchanges `distance` chunks in each direction. Afterwards acc holds the sums of the kept chunks.
  void halve(uint32_t distance) {
    const uint32_t partner = rank_ ^ distance;
    const uint8_t own = distance == core_count_ / 2 && !has_extra_ ? step_src : step_acc;
    const Peers sum = Peers::with_sum(partner, summed(partner, 2 * distance));
    for (uint32_t i = 0; i < distance; ++i) {
      writer_.step(group(partner, distance) + i, own, {}, partner);
      writer_.step(group(rank_, distance) + i, own | step_dst | flag_if(distance == 1, step_finish), sum, {}, 0,
                   summed(rank_, 2 * distance));
    }
  }

  void double_up(uint32_t distance) {
    const uint32_t partner = rank_ ^ distance;
    for (uint32_t i = 0; i < distance; ++i) {
      writer_.step(group(rank_, distance) + i, step_acc, {}, partner);
      writer_.step(group(partner, distance) + i, step_dst, partner, {});
    }
  }

  /// Returns how many operands V(rank) holds before the exchange at distance `period` / 2. They are the operands of all
  /// ranks that equal `rank` modulo `period`.
  [[nodiscard]] uint32_t summed(uint32_t rank, uint32_t period) const {
    return ceil_div(rank_count_ - rank % period, period);
  }

  /// Returns the first of the `size` chunks that `rank` keeps after its exchange at distance `size`.
  [[nodiscard]] static uint32_t group(uint32_t rank, uint32_t size) { return rank & ~(size - 1); }

  ScheduleWriter writer_;
  uint32_t rank_, rank_count_, core_count_, extra_;
  bool has_extra_;
};

Schedule build_extra(uint32_t partner, uint32_t core_count) {
  ScheduleWriter writer(core_count);
  for (uint32_t chunk = 0; chunk < core_count; ++chunk) writer.step(chunk, step_src, {}, partner);
  for (uint32_t chunk = 0; chunk < core_count; ++chunk) writer.step(chunk, step_dst, partner, {});
  return writer.take();
}

}  // namespace

bool halving_doubling_has(rondo_collective_t collective) { return is_all_reduce(collective); }

Schedule build_halving_doubling(const ScheduleArgs &args) {
  assert(args.rank < args.rank_count && args.rank_count <= chunked_rank_count_max);
  if (args.rank_count == 1) return lone_schedule(args);
  const uint32_t core_count = std::bit_floor(args.rank_count);
  if (args.rank >= core_count) return build_extra(args.rank - core_count, core_count);
  return Exchanger(args, core_count).build();
}

}  // namespace rondo
