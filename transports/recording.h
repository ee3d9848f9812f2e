// SPDX-License-Identifier: Apache-2.0
// The flight recorder as plain data: what can be read of a communicator from the memory that its ranks share, by a rank
// of it and by `rondo status` from outside. Reading disturbs nobody; what is read may be a moment old.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/base/result.h"
#include "src/plan/plan.h"

namespace rondo {

/// Operations of each rank that are kept.
inline constexpr uint64_t recorded_operation_count = 1024;

/// What a rank has entered as one operation: equal on all ranks, or they disagree.
struct OperationInfo {
  Signature signature;
  PlanChoice shape;
  uint32_t history = 0;  ///< fingerprint(): equal on all ranks, or they disagree on this operation or an earlier one

  bool operator==(const OperationInfo &) const = default;
};

enum class RankState : uint64_t { absent = 0, alive = 1, finalized = 2, left = 3 };

enum class OperationState : uint64_t { running = 0, completed = 1, failed = 2 };

struct RecordedOperation {
  uint64_t number = 0;
  OperationInfo what;
  OperationState state = OperationState::running;
  uint64_t entered_ns = 0;  ///< both by now_ns()
  uint64_t ended_ns = 0;    ///< 0: still running
};

enum class ProcessState { unknown, running, stopped, gone };

struct RecordedRank {
  RankState state = RankState::absent;
  uint64_t process = 0;
  ProcessState process_state = ProcessState::unknown;
  uint64_t entered = 0;    ///< number of its latest operation, 0: none
  uint64_t completed = 0;  ///< number of the latest that it has completed
};

/// Calls of any thread.
class Recording {
 public:
  virtual ~Recording() = default;
  /// 32 hexadecimal digits, equal on all ranks.
  [[nodiscard]] virtual std::string communicator() const = 0;
  [[nodiscard]] virtual uint32_t rank_count() const = 0;
  /// By now_ns().
  [[nodiscard]] virtual uint64_t made_ns() const = 0;
  [[nodiscard]] virtual RecordedRank rank(uint32_t rank) const = 0;
  /// None where the rank has not entered it, has passed recorded_operation_count further, or is writing it just now.
  [[nodiscard]] virtual std::optional<RecordedOperation> operation(uint32_t rank, uint64_t number) const = 0;
  [[nodiscard]] virtual std::optional<Error> failure() const = 0;
  /// A rank has written it to a file after the failure.
  [[nodiscard]] virtual bool dumped() const = 0;
};

}  // namespace rondo
