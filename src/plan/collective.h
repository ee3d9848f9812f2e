// SPDX-License-Identifier: Apache-2.0
// This file has the table of collectives. Code that depends on properties of a collective reads this table: checks
// of arguments, plans, the verifier, the tuner, executors, `rondo perf` and `rondo tune`. A new collective needs a row.
//
// Every collective works on one logical vector, and each buffer holds a part of it. In an all-to-all, however, each
// rank sends a vector of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "rondo/rondo.h"
#include "src/base/result.h"

namespace rondo {

/// The part of the logical vector that a buffer holds.
enum class BufferLayout {
  whole,     ///< the whole vector, not divided into blocks
  blocks,    ///< the blocks of all ranks
  own_block  ///< only the block of this rank
};

/// The special role of the root.
enum class RootRole { none, sends, receives };

/// The method by which the data move.
enum class Carrier {
  schedule,  ///< the steps of an algorithm
  blocks,    ///< blocks that go straight from rank to rank (src/engine/block_exchange.h)
  messages   ///< send and receive, the two ends of a message
};

struct Collective {
  rondo_collective_t id;
  const char *name;
  Carrier carrier;
  bool has_data;  ///< false if the collective only waits for all ranks
  bool reduces;
  RootRole root;
  BufferLayout source;  ///< content of the send buffer
  BufferLayout target;  ///< content of the recv buffer
  /// The factor in the bus bandwidth, as nccl-tests defines it. Among n ranks, a link carries shares * (n - 1) / n
  /// times the vector. 0 means that a link carries the whole vector once.
  uint32_t shares;
  /// The algorithm by which load_store does it on devices. AUTO: several for an all-reduce, none for other collectives.
  rondo_algorithm_t load_store;
};

/// The rows, indexed by the number of the collective.
inline constexpr std::array collective_table = [] {
  using enum BufferLayout;
  using enum RootRole;
  constexpr auto schedule = Carrier::schedule, exchange = Carrier::blocks, messages = Carrier::messages;
  constexpr auto none_or_all = RONDO_ALGORITHM_AUTO, one_shot = RONDO_ALGORITHM_ONE_SHOT,
                 two_shot = RONDO_ALGORITHM_TWO_SHOT;
  return std::array{
      // id, name, carrier, has_data, reduces, root, source, target, shares, load_store
      Collective{RONDO_ALL_REDUCE, "all_reduce", schedule, true, true, none, whole, whole, 2, none_or_all},
      Collective{RONDO_REDUCE_SCATTER, "reduce_scatter", schedule, true, true, none, blocks, own_block, 1, one_shot},
      Collective{RONDO_ALL_GATHER, "all_gather", schedule, true, false, none, own_block, blocks, 1, one_shot},
      Collective{RONDO_BROADCAST, "broadcast", schedule, true, false, sends, whole, whole, 0, two_shot},
      Collective{RONDO_REDUCE, "reduce", schedule, true, true, receives, whole, whole, 0, two_shot},
      Collective{RONDO_BARRIER, "barrier", schedule, false, true, none, whole, whole, 2, none_or_all},
      Collective{RONDO_SEND, "send", messages, true, false, none, whole, whole, 0, none_or_all},
      Collective{RONDO_RECV, "recv", messages, true, false, none, whole, whole, 0, none_or_all},
      Collective{RONDO_ALL_TO_ALL, "all_to_all", exchange, true, false, none, blocks, blocks, 1, none_or_all},
      Collective{RONDO_GATHER, "gather", exchange, true, false, receives, own_block, blocks, 1, none_or_all},
      Collective{RONDO_SCATTER, "scatter", exchange, true, false, sends, blocks, own_block, 1, none_or_all},
  };
}();

static_assert([] {
  for (size_t row = 0; row < collective_table.size(); ++row)
    if (static_cast<size_t>(collective_table[row].id) != row) return false;
  return collective_table.size() <= RONDO_STATISTICS_COLLECTIVES;
}());

/// The row for numbers that are no collective. Another process may have written such a number into shared memory.
inline constexpr Collective unknown_collective{
    RONDO_SEND,          nullptr,             Carrier::messages, false, false, RootRole::none,
    BufferLayout::whole, BufferLayout::whole, 0,                 RONDO_ALGORITHM_AUTO};

/// Returns the row of a collective.
[[nodiscard]] constexpr const Collective &traits_of(rondo_collective_t collective) {
  const auto number = static_cast<size_t>(collective);
  return number < collective_table.size() ? collective_table[number] : unknown_collective;
}

/// Returns whether the value names a collective. Send, receive and unknown values do not.
[[nodiscard]] bool is_collective(rondo_collective_t collective);

/// Returns whether algorithms have a schedule for the collective.
[[nodiscard]] constexpr bool has_schedule(rondo_collective_t collective) {
  return traits_of(collective).carrier == Carrier::schedule;
}

/// Returns whether blocks go straight from rank to rank, without a schedule.
[[nodiscard]] constexpr bool exchanges_blocks(rondo_collective_t collective) {
  return traits_of(collective).carrier == Carrier::blocks;
}

/// Returns whether the vector consists of one block for each rank. If so, the count of a call is that of one block.
[[nodiscard]] constexpr bool in_blocks(rondo_collective_t collective) {
  return traits_of(collective).source != BufferLayout::whole;
}

/// Returns whether the collective has a schedule in which the vector consists of one block for each rank.
[[nodiscard]] constexpr bool uses_blocks(rondo_collective_t collective) {
  return has_schedule(collective) && in_blocks(collective);
}

/// Returns whether one rank is the root.
[[nodiscard]] constexpr bool has_root(rondo_collective_t collective) {
  return traits_of(collective).root != RootRole::none;
}

/// Returns whether the collective only moves data and reduces nothing.
[[nodiscard]] constexpr bool only_moves(rondo_collective_t collective) { return !traits_of(collective).reduces; }

/// Returns whether the rank has a send buffer.
[[nodiscard]] constexpr bool has_source(const Collective &traits, uint32_t rank, uint32_t root) {
  return traits.root != RootRole::sends || rank == root;
}

/// Returns whether the rank has a recv buffer.
[[nodiscard]] constexpr bool has_target(const Collective &traits, uint32_t rank, uint32_t root) {
  return traits.root != RootRole::receives || rank == root;
}

/// Returns the number of elements of the logical vector if all blocks have the same size.
[[nodiscard]] constexpr uint64_t vector_count(rondo_collective_t collective, uint64_t count, uint32_t rank_count) {
  return in_blocks(collective) ? count * rank_count : count;
}

/// Returns the name of a collective that has a schedule, or null for all other values.
[[nodiscard]] const char *scheduled_collective_string(rondo_collective_t collective);

/// Returns the names of the collectives that `wanted` selects, as "all_reduce, reduce_scatter, ...".
[[nodiscard]] std::string collective_names(bool (*wanted)(const Collective &traits));

/// Returns Rondo's name for a collective that is written as in other libraries: "allreduce", "All-Reduce" or "bcast".
/// Other text is returned unchanged.
[[nodiscard]] std::string collective_spelling(std::string_view text);

/// Returns the collective called `text`, as collective_spelling() reads it. Accepts only collectives with a schedule.
[[nodiscard]] Result<rondo_collective_t> parse_collective(std::string_view text);

}  // namespace rondo
