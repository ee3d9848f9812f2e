// SPDX-License-Identifier: Apache-2.0
// This file is a plain executor of schedules for tests, written from src/proto/step.h and src/plan/schedule.h. It is
// independent of the verifier and of the real executors. The buffers and links of all ranks are in one process. In each
// step, a random lane moves one slot. T is the type of an element: a number, or an expression that shows the order of
// the reduction.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "src/plan/schedule.h"
#include "src/plan/verify/verifier.h"
#include "src/proto/partition.h"
#include "src/proto/step.h"
#include "tests/seeds.h"

namespace rondo::test {

using rondo_test::seed_from_environment;

using Random = std::mt19937_64;

inline uint32_t between(Random &random, uint64_t low, uint64_t high) {
  return static_cast<uint32_t>(std::uniform_int_distribution<uint64_t>(low, high)(random));
}

/// An operation of all ranks on one channel.
struct Operation {
  rondo_collective_t collective = RONDO_ALL_REDUCE;
  uint32_t rank_count = 1;
  uint32_t root = 0;
  std::vector<bool> in_place;  ///< by rank
  std::vector<Range> blocks;   ///< one for each rank; empty if there are no blocks
  uint64_t element_count = 0;  ///< of the logical vector
  Partition partition;         ///< refers to `blocks`, so an Operation is not copied
  uint32_t slot_count = 4;
  uint64_t slot_elements = 1;
  std::vector<bool> by_reference;   ///< by rank; empty if no rank sends by reference
  std::vector<Schedule> schedules;  ///< by rank

  Operation() = default;
  Operation(const Operation &) = delete;
  Operation &operator=(const Operation &) = delete;
};

/// Returns the collectives that an algorithm has.
[[nodiscard]] inline std::vector<rondo_collective_t> collectives_of(const Algorithm &algorithm) {
  std::vector<rondo_collective_t> found;
  for (const Collective &each : collective_table)
    if (algorithm.supports(each.id)) found.push_back(each.id);
  return found;
}

[[nodiscard]] inline bool reduces(rondo_collective_t collective) {
  return collective <= RONDO_BARRIER && collective != RONDO_ALL_GATHER && collective != RONDO_BROADCAST;
}

/// Returns whether the collective requires blocks of equal sizes.
[[nodiscard]] inline bool needs_even_blocks(rondo_collective_t collective) { return collective == RONDO_ALL_TO_ALL; }

/// Returns the elements that `rank` has in its send buffer or, with `recv`, in its recv buffer.
[[nodiscard]] inline Range held_by(const Operation &operation, uint32_t rank, bool recv) {
  const Range all{0, operation.element_count};
  switch (operation.collective) {
    case RONDO_REDUCE_SCATTER: return recv ? operation.blocks[rank] : all;
    case RONDO_ALL_GATHER: return recv ? all : operation.blocks[rank];
    case RONDO_BROADCAST: return recv || rank == operation.root ? all : Range{};
    case RONDO_REDUCE: return !recv || rank == operation.root ? all : Range{};
    case RONDO_GATHER: return !recv ? operation.blocks[rank] : rank == operation.root ? all : Range{};
    case RONDO_SCATTER: return recv ? operation.blocks[rank] : rank == operation.root ? all : Range{};
    case RONDO_ALL_REDUCE:
    case RONDO_BARRIER:
    case RONDO_SEND:
    case RONDO_RECV:
    case RONDO_ALL_TO_ALL: break;
  }
  return all;
}

/// Runs an operation on elements of type T. `+` reduces, finish() ends a reduction, and T{} is an undefined value that
/// equals no other.
template <class T>
class World {
 public:
  using Buffer = std::vector<T>;

  /// Makes the world. `operand(rank, element)` fills the send buffers.
  template <class Operand>
  World(const Operation &operation, const Operand &operand) : operation_(operation) {
    for (uint32_t rank = 0; rank < operation.rank_count; ++rank) {
      Buffer send(operation.element_count);
      const Range held = held_by(operation, rank, false);
      for (uint64_t i = held.begin; i < held.begin + held.count; ++i) send[i] = operand(rank, i);
      // In place, `recv` is the only buffer.
      recv_.push_back(operation.in_place[rank] ? send : Buffer(operation.element_count));
      send_.push_back(std::move(send));
      for (const Lane &lane : operation.schedules[rank].lanes) lanes_.push_back({rank, &lane, 0, 0, 0});
    }
  }

  /// Runs until nothing can move. Returns true if all lanes are done, no slot remains, and no access was out of bounds.
  bool run(Random &random) {
    // Some lanes run more often than others, so that some ranks run far ahead.
    std::vector<uint32_t> order(lanes_.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    const uint32_t fairness = between(random, 0, 3);
    while (fault_.empty()) {
      if (fairness > 0 && !order.empty()) {
        const uint32_t a = between(random, 0, order.size() - 1), b = between(random, 0, order.size() - 1);
        if (fairness > 1 || between(random, 0, 7) == 0) std::swap(order[a], order[b]);
      }
      bool moved = false;
      for (size_t i = 0; i < order.size() && !moved; ++i) moved = advance(lanes_[order[i]]);
      if (!moved) break;
    }
    for (const LaneState &lane : lanes_)
      if (fault_.empty() && lane.tile < operation_.partition.tile_count && !lane.steps->empty()) fault_ = "deadlock";
    for (const auto &[ends, slots] : links_)
      if (fault_.empty() && !slots.empty()) fault_ = "slots left over";
    return fault_.empty();
  }

  [[nodiscard]] const std::string &fault() const { return fault_; }
  [[nodiscard]] const Buffer &send(uint32_t rank) const {
    return operation_.in_place[rank] ? recv_[rank] : send_[rank];
  }
  [[nodiscard]] const Buffer &recv(uint32_t rank) const { return recv_[rank]; }

 private:
  struct LaneState {
    uint32_t rank;
    const Lane *steps;
    uint64_t tile;
    size_t step;
    uint64_t slot;
  };
  /// A slot has either a copy, or a reference to the sender's memory.
  struct Slot {
    Buffer copy;
    const T *reference;
    uint64_t count;
    [[nodiscard]] const T &at(uint64_t i) const { return reference != nullptr ? reference[i] : copy[i]; }
  };
  using Link = std::deque<Slot>;

  [[nodiscard]] Buffer &source(uint32_t rank) { return operation_.in_place[rank] ? recv_[rank] : send_[rank]; }

  /// Returns the link to or from the peer `index`, or null if there is none.
  Link *link(const LaneState &lane, LinkIndex index, bool send) {
    const auto &peers = operation_.schedules[lane.rank].peers;
    if (index >= peers.size() || peers[index] >= operation_.rank_count) {
      fault_ = "no such link";
      return nullptr;
    }
    return &links_[send ? std::pair(lane.rank, peers[index]) : std::pair(peers[index], lane.rank)];
  }

  /// Returns true if a slot moved, or an empty chunk was skipped. Returns false if the lane is blocked, done or has a
  /// fault.
  bool advance(LaneState &lane) {
    if (lane.tile >= operation_.partition.tile_count || lane.steps->empty()) return false;
    const Step &step = (*lane.steps)[lane.step];
    const uint64_t unit = operation_.slot_elements;
    if (step.chunk >= operation_.partition.chunk_count) {
      fault_ = "no such chunk";
      return false;
    }
    const Range chunk = operation_.partition.range(lane.tile, step.chunk);
    const uint64_t first = lane.slot * unit;
    if (first < chunk.count) {
      const Range piece{chunk.begin + first, std::min(unit, chunk.count - first)};
      if (!move(lane, step, piece)) return false;
      ++lane.slot;
    }
    if (lane.slot * unit >= chunk.count) {
      lane.slot = 0;
      if (++lane.step == lane.steps->size()) lane.step = 0, ++lane.tile;
    }
    return true;
  }

  bool move(LaneState &lane, const Step &step, Range piece) {
    std::vector<Link *> from, to;
    for (int i = 0; i < 2; ++i) {
      if ((step.flags & step_recv) && (i == 0 || step.recv_link[i] != no_link))
        from.push_back(link(lane, step.recv_link[i], false));
      if ((step.flags & step_send) && (i == 0 || step.send_link[i] != no_link))
        to.push_back(link(lane, step.send_link[i], true));
    }
    if (!fault_.empty()) return false;
    for (const Link *in : from)
      if (in->empty()) return false;
    for (const Link *out : to)
      if (out->size() >= operation_.slot_count) return false;
    if (from.size() == 2 && from[0] == from[1]) return fail("one link twice");
    if (to.size() == 2 && to[0] == to[1]) return fail("one link twice");
    return compute(lane, step, piece, from, to);
  }

  bool compute(LaneState &lane, const Step &step, Range piece, const std::vector<Link *> &from,
               const std::vector<Link *> &to) {
    std::vector<const T *> operands;
    if (step.flags & step_acc) operands.push_back(place(lane.rank, step.chunk, piece, true));
    if (step.flags & step_src) operands.push_back(place(lane.rank, step.chunk, piece, false));
    const bool one = operands.size() + from.size() == 1;
    if (operands.empty() && from.empty()) return fail("a step without operands");
    T *const target = step.flags & step_dst ? place(lane.rank, step.chunk, piece, true) : nullptr;
    if (!fault_.empty()) return false;
    for (const Link *in : from)
      if (in->front().count != piece.count) return fail("a slot of the wrong size");
    Buffer result(piece.count);
    for (uint64_t i = 0; i < piece.count; ++i) {
      std::optional<T> sum;
      for (const T *operand : operands) sum = sum ? *sum + operand[i] : operand[i];
      for (const Link *in : from) sum = sum ? *sum + in->front().at(i) : in->front().at(i);
      if (step.flags & step_finish) sum = sum->finish();
      if constexpr (requires { sum->end_step(); }) sum = sum->end_step();
      result[i] = *sum;
    }
    for (Link *in : from) in->pop_front();
    const T *stays = target;
    if (stays == nullptr && one && from.empty() && !(step.flags & step_finish)) stays = operands[0];
    if (target != nullptr) std::copy(result.begin(), result.end(), target);
    for (Link *out : to) {
      const bool loop_back = out == &links_[{lane.rank, lane.rank}];
      const bool allowed = lane.rank < operation_.by_reference.size() && operation_.by_reference[lane.rank];
      const bool refer = allowed && stays != nullptr && !loop_back;
      out->push_back({refer ? Buffer() : result, refer ? stays : nullptr, piece.count});
    }
    return true;
  }

  T *place(uint32_t rank, uint32_t chunk, Range piece, bool recv) {
    if (operation_.collective == RONDO_ALL_TO_ALL) {  // chunk d goes d ranks forward; the buffers are by peer
      const uint32_t peer = (rank + (recv ? operation_.rank_count - chunk : chunk)) % operation_.rank_count;
      piece.begin += operation_.blocks[peer].begin - operation_.blocks[chunk].begin;
    }
    const Range held = held_by(operation_, rank, recv);
    if (piece.begin < held.begin || piece.begin + piece.count > held.begin + held.count) {
      fault_ = "an access outside the buffer";
      return nullptr;
    }
    return (recv ? recv_[rank] : source(rank)).data() + piece.begin;
  }

  bool fail(const char *what) {
    fault_ = what;
    return false;
  }

  const Operation &operation_;
  std::vector<Buffer> send_, recv_;
  std::vector<LaneState> lanes_;
  std::map<std::pair<uint32_t, uint32_t>, Link> links_;
  std::string fault_;
};

/// An element as a number. Operands are random 64-bit numbers, so a missing or doubled one changes the sum.
struct Number {
  uint64_t value = 0xDEAD'BEEF'DEAD'BEEF;
  uint32_t finished = 1000;

  Number operator+(const Number &other) const { return {value + other.value, finished + other.finished}; }
  [[nodiscard]] Number finish() const { return {value, finished + 1}; }
  bool operator==(const Number &) const = default;

  /// Returns a pseudo-random number that depends on the rank and the element.
  static Number operand(uint32_t rank, uint64_t element) {
    return {(uint64_t{rank} * 0x9E37'79B9'7F4A'7C15 + element + 1) * 0xD6E8'FEB8'6659'FD93 ^ element << 40, 0};
  }
};

/// Returns the rank whose block has the element.
[[nodiscard]] inline uint32_t owner_of(const Operation &operation, uint64_t element) {
  for (uint32_t owner = 0; owner < operation.rank_count; ++owner)
    if (element - operation.blocks[owner].begin < operation.blocks[owner].count) return owner;
  return 0;
}

/// Runs once with numbers. Returns a description of the fault, or "" if all results are right.
[[nodiscard]] inline std::string run_numbers(const Operation &operation, Random &random) {
  World<Number> world(operation, Number::operand);
  if (!world.run(random)) return world.fault();
  for (uint32_t rank = 0; rank < operation.rank_count; ++rank) {
    const Range recv = held_by(operation, rank, true), send = held_by(operation, rank, false);
    for (uint64_t i = 0; i < operation.element_count; ++i) {
      if (i >= recv.begin && i < recv.begin + recv.count) {
        Number expected = Number::operand(operation.root, i);
        if (operation.collective == RONDO_ALL_GATHER || operation.collective == RONDO_GATHER)
          expected = Number::operand(owner_of(operation, i), i);
        if (operation.collective == RONDO_ALL_TO_ALL) {
          const uint32_t from = owner_of(operation, i);
          expected = Number::operand(from, i - operation.blocks[from].begin + operation.blocks[rank].begin);
        }
        if (reduces(operation.collective)) {
          expected = {0, 1};
          for (uint32_t from = 0; from < operation.rank_count; ++from) expected = expected + Number::operand(from, i);
        }
        if (!(world.recv(rank)[i] == expected))
          return "rank " + std::to_string(rank) + ": wrong element " + std::to_string(i);
      }
      const bool sent = i >= send.begin && i < send.begin + send.count;
      if (sent && !operation.in_place[rank] && !(world.send(rank)[i] == Number::operand(rank, i)))
        return "rank " + std::to_string(rank) + ": send buffer changed";
    }
  }
  return {};
}

/// The parameters by which an operation is made.
struct Choice {
  rondo_algorithm_t algorithm = RONDO_ALGORITHM_RING;
  rondo_collective_t collective = RONDO_ALL_REDUCE;
  uint32_t rank_count = 1, root = 0;
  uint32_t channel = 0;   ///< for the builder; the partition has one channel
  std::vector<uint32_t> node_of;  ///< host of each rank; empty if all are on one
  uint32_t in_place = 0;  ///< 0 for none, 1 for all, 2 for every other rank
  uint64_t element_count = 0;  ///< approximate if there are blocks
  uint64_t chunk_elements = 1, slot_elements = 1;
  uint32_t slot_count = 4;
  bool even_blocks = false;
};

/// Makes one block for each rank, one after another. If `even`, the blocks are equal. Otherwise they have about `each`
/// elements, and some are empty.
[[nodiscard]] inline std::vector<Range> make_blocks(uint32_t rank_count, uint64_t each, bool even) {
  std::vector<Range> blocks;
  uint64_t begin = 0;
  for (uint32_t rank = 0; rank < rank_count; ++rank) {
    const uint64_t sizes[] = {each, each + 1, 0, each / 2, 1, each};
    blocks.push_back({begin, even ? each : sizes[rank % 6]});
    begin += blocks.back().count;
  }
  return blocks;
}

inline void make_operation(Operation &operation, const Choice &choice) {
  operation.collective = choice.collective;
  operation.rank_count = choice.rank_count;
  operation.root = choice.root;
  operation.element_count = choice.element_count;
  operation.slot_count = choice.slot_count;
  operation.slot_elements = choice.slot_elements;
  if (in_blocks(choice.collective)) {
    const bool even = choice.even_blocks || needs_even_blocks(choice.collective);
    operation.blocks = make_blocks(choice.rank_count, choice.element_count / choice.rank_count, even);
    operation.element_count = operation.blocks.back().begin + operation.blocks.back().count;
  }
  for (uint32_t rank = 0; rank < choice.rank_count; ++rank) {
    operation.in_place.push_back(choice.in_place == 1 || (choice.in_place == 2 && rank % 2 == 1));
    const ScheduleArgs args{choice.collective, rank, choice.rank_count, choice.root, choice.channel,
                            operation.in_place.back(), choice.node_of};
    operation.schedules.push_back(build_schedule(choice.algorithm, args).value());
  }
  Partition &partition = operation.partition;
  if (in_blocks(choice.collective)) partition.blocks = operation.blocks.data();
  partition.whole = {0, operation.element_count};
  partition.chunk_count = operation.schedules[0].chunk_count;
  partition.chunk_elements = choice.chunk_elements;
  partition.tile_count = partition.count_tiles();
}

/// Returns the verifier's answer. `by_reference` says by rank whether it sends by reference. If empty, no rank does.
[[nodiscard]] inline std::optional<Violation> verify_operation(const Operation &operation,
                                                               std::vector<bool> by_reference = {}) {
  return verify({.collective = operation.collective, .root = operation.root, .schedules = operation.schedules,
                 .partition = operation.partition, .slot_count = operation.slot_count,
                 .slot_elements = operation.slot_elements, .in_place = operation.in_place,
                 .by_reference = std::move(by_reference)});
}

/// Returns which ranks may send by reference, according to the algorithm.
[[nodiscard]] inline std::vector<bool> safe_references(const Choice &choice, const Operation &operation) {
  std::vector<bool> safe;
  for (uint32_t rank = 0; rank < choice.rank_count; ++rank)
    safe.push_back(find_algorithm(choice.algorithm)->reference_safe(
        {choice.collective, rank, choice.rank_count, choice.root, choice.channel, operation.in_place[rank],
         choice.node_of}));
  return safe;
}

[[nodiscard]] inline std::string to_string(const Choice &choice) {
  std::string hosts = choice.node_of.empty() ? "" : " hosts";
  for (const uint32_t node : choice.node_of) hosts += " " + std::to_string(node);
  return std::string(rondo_algorithm_string(choice.algorithm)) + " " + rondo_collective_string(choice.collective) +
         " ranks " + std::to_string(choice.rank_count) + " root " + std::to_string(choice.root) + " channel " +
         std::to_string(choice.channel) + " in place " + std::to_string(choice.in_place) + " elements " +
         std::to_string(choice.element_count) + " chunk " + std::to_string(choice.chunk_elements) + " slot " +
         std::to_string(choice.slot_elements) + " slots " + std::to_string(choice.slot_count) + hosts;
}

}  // namespace rondo::test
