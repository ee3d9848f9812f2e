// SPDX-License-Identifier: Apache-2.0
// Computes what a collective moves: counts, the parts of the logical vector that a rank sends and receives, bus
// bandwidth.
//
// The table of collectives (src/plan/collective.h) says which part of one logical vector each buffer holds.
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

/// The pattern of nccl-tests that no function has: in one group, each rank sends to the next and receives from the
/// previous rank. It stands beside the collectives under this number.
inline constexpr rondo_collective_t sendrecv = RONDO_SEND;

/// Returns the name of the collective or pattern.
[[nodiscard]] const char *name_of(rondo_collective_t collective);
/// Finds one that can be timed.
[[nodiscard]] std::optional<rondo_collective_t> find_collective(std::string_view name);
/// Returns the names of all that can be timed: "all_reduce, reduce_scatter, ...".
[[nodiscard]] std::string known_collectives();

struct Case {
  rondo_collective_t collective = RONDO_ALL_REDUCE;
  rondo_type_t type = RONDO_FLOAT32;
  rondo_op_t op = RONDO_SUM;
  int root = 0;
  int ranks = 1;
  rondo_op_t made = RONDO_SUM;  ///< what this rank calls with where `op` is mulsum
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

/// One call, as one rank makes it.
struct Shape {
  size_t count = 0;  ///< the argument of the call
  size_t bytes = 0;  ///< of the whole logical vector
  Part send, recv;
  int next = 0, previous = 0;  ///< sendrecv: the ranks that this one sends to and receives from
};

/// Returns false for what runs without a plan: messages.
[[nodiscard]] bool has_plan(rondo_collective_t collective);

/// Returns whether the rank's send buffer counts: on the root alone in broadcast and scatter.
[[nodiscard]] bool reads_send(const Case &what, int rank);

/// Returns false if the rank's recv must stay as it is: reduce and gather, elsewhere than on root.
[[nodiscard]] bool writes_recv(const Case &what, int rank);

/// Returns the largest call whose logical vector is not above `bytes`.
[[nodiscard]] Shape shape_of(const Case &what, int rank, size_t bytes);

/// Returns bus bandwidth by algorithm bandwidth (bytes / time). Bus bandwidth is what the busiest link would carry.
[[nodiscard]] double bus_factor(rondo_collective_t collective, int ranks);

/// Returns the operation's name, or "none" if nothing is reduced.
[[nodiscard]] const char *op_name(const Case &what);

}  // namespace rondo::perf
