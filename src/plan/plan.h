// SPDX-License-Identifier: Apache-2.0
// A plan has all properties of an operation that do not change from call to call. It is immutable, and a communicator
// caches it.
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

/// The properties of an operation that must be equal on all ranks. Error messages show them. A signature is plain data,
/// because a rank writes it to memory that peers read.
struct Signature {
  uint32_t collective = 0;
  uint32_t type = 0;
  uint32_t op = 0;
  uint32_t root = 0;
  uint64_t count = 0;        ///< count of the call; for the _v collectives, the total
  uint64_t counts_hash = 0;  ///< hash of counts and displacements for the _v collectives, or counts_of_pairs

  bool operator==(const Signature &) const = default;
};

/// The value of Signature::op for every premul sum. The factors are not part of a signature: each rank has its own.
inline constexpr uint32_t premul_sum_op = 0xFF;

/// Returns the name of the reduction.
[[nodiscard]] const char *op_string(const Signature &signature);

/// The signature of rondo_comm_finalize(): a barrier with an `op` that rondo_barrier() never uses, so they differ.
inline constexpr Signature finalize_signature{RONDO_BARRIER, RONDO_UINT8, RONDO_MIN, 0, 1, 0};

/// The signature of rondo_comm_finalize() if hosts exchange messages. It sums each rank's count of unreceived messages.
inline constexpr Signature counting_finalize_signature{RONDO_BARRIER, RONDO_UINT64, RONDO_SUM, 0, 1, 0};

[[nodiscard]] constexpr bool is_finalize(const Signature &signature) {
  return signature == finalize_signature || signature == counting_finalize_signature;
}

/// The counts_hash of a _v collective that exchanges blocks. No rank knows all counts, so each pair of ranks compares
/// the counts of the blocks between them. The count of the signature is 0.
inline constexpr uint64_t counts_of_pairs = 1;

/// Describes an operation, as in "all_reduce of 1000 float32 (sum)" or "broadcast of 8 int8 from rank 2".
[[nodiscard]] std::string describe(const Signature &signature);

/// An operation whose arguments the API has checked.
struct OperationKey {
  Signature signature;
  bool in_place = false;
  std::vector<Range> blocks;  ///< reduce-scatter, all-gather: entry r is rank r's block of the logical vector

  bool operator==(const OperationKey &) const = default;
};

/// Returns the number of elements of the logical vector: the end of the last block, or the count if it has no blocks.
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

  /// Turns this plan, which adds words, into the plan of a mean of integers. `called_as` is the user's call.
  void widen_from(const Signature &called_as);
  /// Turns this plan, which adds scaled operands, into the plan of `called_as`, a premul sum.
  void scale_from(const Signature &called_as, Scaling where);

  OperationKey key;
  Signature called;      ///< the caller's signature; differs from key.signature for a mean of integers or a premul sum
  bool widened = false;  ///< a mean of integers: the plan adds words (src/plan/premul.h)
  Scaling scaling = Scaling::none;  ///< other than none: a premul sum (src/plan/premul.h)
  PlanChoice choice;
  std::vector<Schedule> schedules;  ///< one for each channel; empty if the plan exchanges blocks
  std::vector<PlannedLane> lanes;   ///< lanes of all channels
  Range send;                       ///< range of the logical vector in the rank's send buffer
  Range recv;                       ///< range of the logical vector in the rank's recv buffer
  uint64_t vector_bytes = 0;        ///< size of the whole logical vector as called; 0 for a barrier
  uint64_t identity = 0;            ///< result of identity_of() for `called` and `choice`

 private:
  Plan() = default;
  friend Result<std::unique_ptr<Plan>> build_plan(const OperationKey &, const PlanChoice &, const ConnectionGeometry &,
                                                  uint32_t, uint32_t, std::span<const uint32_t>);
};

/// Builds the plan of `rank` among `rank_count`. node_of is as in ScheduleArgs. Fails if the algorithm cannot do the
/// operation (build_schedule()).
[[nodiscard]] Result<std::unique_ptr<Plan>> build_plan(const OperationKey &key, const PlanChoice &choice,
                                                       const ConnectionGeometry &geometry, uint32_t rank,
                                                       uint32_t rank_count, std::span<const uint32_t> node_of = {});

/// Returns a hash of all properties on which ranks must agree.
[[nodiscard]] uint64_t identity_of(const Signature &signature, const PlanChoice &choice);

/// Extends a hash over the operations that one rank has called on a communicator. `history` is the hash of the earlier
/// operations, or 0 if there are none. Equal histories stay equal after equal operations, and differ after different
/// ones.
[[nodiscard]] uint64_t extend_history(uint64_t history, uint64_t identity);

/// Returns the digest of a history: its low 32 bits. The protocols send the digest with all data. So a rank that
/// receives data sees whether the sender agrees with it on this operation and on all earlier operations.
[[nodiscard]] uint32_t fingerprint(uint64_t history);

/// A sequence of operations on which ranks must agree, as one rank has called them. All collectives of a communicator
/// form one sequence.
struct OperationSequence {
  uint64_t number = 0;   ///< number of the latest operation; the first has number 1
  uint64_t history = 0;  ///< extend_history() over all operations up to `number`

  void add(uint64_t identity) {
    ++number;
    history = extend_history(history, identity);
  }
};

}  // namespace rondo
