// SPDX-License-Identifier: Apache-2.0
// A plan: everything about an operation that does not change from call to call. Immutable; a communicator caches it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/base/result.h"
#include "src/plan/schedule.h"
#include "src/plan/tuner.h"
#include "src/proto/connection.h"
#include "src/proto/interpreter.h"

namespace rondo {

/// The part of an operation on which ranks must agree, and which an error prints. It is plain data, because it is
/// written to memory that peers read.
struct Signature {
  uint32_t collective = 0;
  uint32_t type = 0;
  uint32_t op = 0;
  uint32_t root = 0;
  uint64_t count = 0;        ///< as the caller gave it; the total for the _v collectives
  uint64_t counts_hash = 0;  ///< of counts and displacements, for the _v collectives; or counts_of_pairs

  bool operator==(const Signature &) const = default;
};

/// The operation of a signature that stands for every premul sum. Ranks need not have equal factors.
inline constexpr uint32_t premul_sum_op = 0xFF;

/// Returns the name of the operation.
[[nodiscard]] const char *op_string(const Signature &signature);

/// The signature of rondo_comm_finalize(): a barrier, except for the operation, so that no barrier matches it.
inline constexpr Signature finalize_signature{RONDO_BARRIER, RONDO_UINT8, RONDO_MIN, 0, 1, 0};

/// The signature of rondo_comm_finalize() where ranks of several hosts exchange messages: each rank contributes a word.
inline constexpr Signature counting_finalize_signature{RONDO_BARRIER, RONDO_UINT64, RONDO_SUM, 0, 1, 0};

[[nodiscard]] constexpr bool is_finalize(const Signature &signature) {
  return signature == finalize_signature || signature == counting_finalize_signature;
}

/// The counts_hash of a _v collective that exchanges blocks. No rank has all counts, so each two ranks compare the
/// counts of their blocks. The signature's count is 0.
inline constexpr uint64_t counts_of_pairs = 1;

/// Returns e.g. "all_reduce of 1000 float32 (sum)" or "broadcast of 8 int8 from rank 2".
[[nodiscard]] std::string describe(const Signature &signature);

/// An operation as validated by the API.
struct OperationKey {
  Signature signature;
  bool in_place = false;
  std::vector<Range> blocks;  ///< reduce-scatter, all-gather: block r of the logical vector

  bool operator==(const OperationKey &) const = default;
};

/// Returns the elements of the logical vector: the end of the last block, or the count.
[[nodiscard]] uint64_t vector_elements(const OperationKey &key);

struct PlannedLane {
  uint32_t channel = 0;
  LaneProgram program;  ///< points into the plan
};

/// The place where an executor puts the scaled operands of a premul sum (src/plan/premul.h).
enum class Scaling : uint8_t { none, into_recv, into_workspace };

class Plan {
 public:
  Plan(const Plan &) = delete;
  Plan &operator=(const Plan &) = delete;

  /// Makes the plan of a mean of integers, `called_as`, from the plan that adds the words.
  void widen_from(const Signature &called_as);
  /// Makes the plan of a premul sum, `called_as`, from the plan that adds the scaled operands.
  void scale_from(const Signature &called_as, Scaling where);

  OperationKey key;
  Signature called;      ///< as the caller gave it: that of `key`, except in a mean of integers or a premul sum
  bool widened = false;  ///< a mean of integers: the plan adds words (src/plan/integer_mean.h)
  Scaling scaling = Scaling::none;  ///< other than none: a premul sum (src/plan/premul.h)
  PlanChoice choice;
  std::vector<Schedule> schedules;  ///< one a channel; none if it exchanges blocks
  std::vector<PlannedLane> lanes;   ///< of all channels
  Range send;                       ///< of the logical vector: what the rank's send buffer holds
  Range recv;                       ///< what its recv buffer holds
  uint64_t vector_bytes = 0;        ///< of the whole logical vector as called; 0 for a barrier
  uint64_t identity = 0;            ///< identity_of() `called` and its choice

 private:
  Plan() = default;
  friend Result<std::unique_ptr<Plan>> build_plan(const OperationKey &, const PlanChoice &, const ConnectionGeometry &,
                                                  uint32_t, uint32_t, std::span<const uint32_t>);
};

/// Builds the plan of `rank` of `rank_count`. node_of: as in ScheduleArgs. Fails if the algorithm cannot do this
/// (build_schedule()).
[[nodiscard]] Result<std::unique_ptr<Plan>> build_plan(const OperationKey &key, const PlanChoice &choice,
                                                       const ConnectionGeometry &geometry, uint32_t rank,
                                                       uint32_t rank_count, std::span<const uint32_t> node_of = {});

/// Returns a hash of everything on which ranks must agree.
[[nodiscard]] uint64_t identity_of(const Signature &signature, const PlanChoice &choice);

/// Extends a running hash over a communicator's operations, as one rank has called them. `history` is of the earlier
/// ones; 0 if there are none. Equal histories stay equal by equal operations, and become different by different ones.
[[nodiscard]] uint64_t extend_history(uint64_t history, uint64_t identity);

/// Returns 32 bits of the history, which the protocols carry with all that they send. So all data that a rank receives
/// shows whether both ranks agree on this operation and on all before it.
[[nodiscard]] uint32_t fingerprint(uint64_t history);

/// Operations that follow each other and that ranks must agree on, as one rank has called them: all collectives of a
/// communicator are one such sequence.
struct OperationSequence {
  uint64_t number = 0;   ///< of the latest; the first has number 1
  uint64_t history = 0;  ///< extend_history() by all of them

  void add(uint64_t identity) {
    ++number;
    history = extend_history(history, identity);
  }
};

}  // namespace rondo
