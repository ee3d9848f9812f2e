// SPDX-License-Identifier: Apache-2.0
// This file computes what a collective moves: counts, bus bandwidth, and the parts of the logical vector that a rank
// sends and receives.
//
// The table of collectives (src/plan/collective.h) says which part of the logical vector each buffer holds.
//
// "size" means the bytes of the whole logical vector, as in nccl-tests. "count" is the argument of the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rondo/rondo.h"
#include "src/plan/collective.h"

namespace rondo::perf {

enum class Placement { out_of_place, in_place };

/// Two patterns of nccl-tests for which Rondo has no functions. RONDO_SEND and RONDO_RECV represent them here. In
/// sendrecv, each rank sends to the next rank and receives from the previous one. In hypercube, an all-gather among 2^k
/// ranks, there are k groups. In each group, a rank exchanges all blocks that it has with the rank whose number differs
/// in one bit.
inline constexpr rondo_collective_t sendrecv = RONDO_SEND;
inline constexpr rondo_collective_t hypercube = RONDO_RECV;

/// Returns the collective that has the same buffers, results and bandwidth as the pattern.
[[nodiscard]] constexpr rondo_collective_t like(rondo_collective_t collective) {
  return collective == hypercube ? RONDO_ALL_GATHER : collective;
}

/// Returns the name of the collective or pattern.
[[nodiscard]] const char *name_of(rondo_collective_t collective);
/// Returns the collective or pattern of that name, if it can be timed.
[[nodiscard]] std::optional<rondo_collective_t> find_collective(std::string_view name);
/// Returns the names of all collectives and patterns that can be timed, such as "all_reduce, reduce_scatter, ...".
[[nodiscard]] std::string known_collectives();

struct Case {
  rondo_collective_t collective = RONDO_ALL_REDUCE;
  rondo_type_t type = RONDO_FLOAT32;
  rondo_op_t op = RONDO_SUM;
  int root = 0;
  int ranks = 1;
  rondo_op_t made = RONDO_SUM;  ///< the operation that this rank made, if `op` is mulsum
};

/// The operation of nccl-tests that each rank makes with a factor of its own.
inline constexpr rondo_op_t mulsum = RONDO_OP_DYNAMIC;

/// Returns the factor of a rank in mulsum, as in nccl-tests.
[[nodiscard]] constexpr uint32_t factor_of(size_t rank) { return rank % 2 == 0 ? 1 : 2; }

/// Elements [first, first + count) of the logical vector.
struct Part {
  uint64_t first = 0;
  size_t count = 0;
};

/// The buffers of a call.
struct Pointers {
  std::byte *send = nullptr;
  std::byte *recv = nullptr;
};

/// One call, as a rank makes it.
struct Shape {
  size_t count = 0;  ///< the argument of the call
  size_t bytes = 0;  ///< bytes of the whole logical vector
  Part send, recv;
  int rank = 0;
};

/// Says whether the collective runs by a plan. Messages do not.
[[nodiscard]] bool has_plan(rondo_collective_t collective);

/// Says whether the send and recv buffers may coincide.
[[nodiscard]] bool has_in_place(rondo_collective_t collective);

/// Returns whether the pattern exists for this number of ranks.
[[nodiscard]] bool takes_ranks(rondo_collective_t collective, int ranks);

/// Says whether the rank's send buffer is read. In broadcast and scatter only the root's buffer is read.
[[nodiscard]] bool reads_send(const Case &what, int rank);

/// Says whether the rank's recv buffer is written. In reduce and gather only the root's buffer is written.
[[nodiscard]] bool writes_recv(const Case &what, int rank);

/// Returns the largest call whose logical vector has at most `bytes`.
[[nodiscard]] Shape shape_of(const Case &what, int rank, size_t bytes);

/// Returns bus bandwidth (what the busiest link carries) divided by algorithm bandwidth (bytes / time).
[[nodiscard]] double bus_factor(rondo_collective_t collective, int ranks);

/// Returns the operation's name, or "none" if nothing is reduced.
[[nodiscard]] const char *op_name(const Case &what);

}  // namespace rondo::perf
