// SPDX-License-Identifier: Apache-2.0
// The flight recorder as plain data. A rank of a communicator, and `rondo status` from outside, read it from the memory
// that the ranks share. Reading disturbs no rank; what is read may be a moment old.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "src/base/result.h"
#include "src/plan/plan.h"
#include "src/links/message_boards.h"

namespace rondo {

/// Operations of each rank that are kept.
inline constexpr uint64_t recorded_operation_count = 1024;

/// An operation as a rank has entered it: equal on all ranks, or they disagree.
struct OperationInfo {
  Signature signature;
  PlanChoice choice;
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

/// One end of a message.
struct RecordedMessage {
  MessageInfo what;
  OperationState state = OperationState::running;
  uint64_t begun_ns = 0;  ///< both by now_ns()
  uint64_t ended_ns = 0;  ///< 0: still running
};

/// The figures of one operation, for the statistics of the rank that completes it.
struct OperationCost {
  uint32_t collective = 0;
  bool ran = true;  ///< false: captured into a graph, and does not count
  /// The caller's own thread ran it: all of its time was waited for.
  bool in_call = false;
  /// The operation was enqueued on a device, and began there after the one before it. How long a caller waits for a
  /// device is not known here.
  bool on_device = false;
  uint64_t bytes = 0;      ///< of the whole vector
  uint64_t waited_ns = 0;  ///< on a host stream: in which callers waited for it
};

/// Completed operations of one collective.
struct RecordedCounts {
  uint64_t operations = 0;
  uint64_t bytes = 0;         ///< of whole vectors
  uint64_t in_flight_ns = 0;  ///< from entering to the end
  uint64_t exposed_ns = 0;    ///< of that, in which a caller waited

  void add(const RecordedCounts &more) {
    operations += more.operations;
    bytes += more.bytes;
    in_flight_ns += more.in_flight_ns;
    exposed_ns += more.exposed_ns;
  }
};

/// A bound above the number of collectives, so that the memory keeps its layout when a collective is added.
inline constexpr uint32_t counted_collective_count = 16;

struct RecordedStatistics {
  std::array<RecordedCounts, counted_collective_count> collectives{};  ///< by rondo_collective_t
  bool waits_seen = true;  ///< false: operations ran on a device, and exposed_ns says nothing

  [[nodiscard]] RecordedCounts total() const {
    RecordedCounts sum;
    for (const RecordedCounts &counts : collectives) sum.add(counts);
    return sum;
  }
};

/// The measured difference that converts now_ns() of this host to now_ns() of the host of rank 0, when added.
struct ClockOffset {
  int64_t offset_ns = 0;
  uint64_t uncertainty_ns = 0;  ///< the true offset is this far away at most
};

enum class ProcessState { unknown, running, stopped, gone };

struct RecordedRank {
  RankState state = RankState::absent;
  uint64_t group_rank = 0;  ///< its number where ranks of other hosts count as well
  uint64_t process = 0;
  ProcessState process_state = ProcessState::unknown;
  uint64_t entered = 0;    ///< number of its latest operation, 0: none
  uint64_t completed = 0;  ///< number of the latest that it has completed
  BatchCounts batches;     ///< of messages
  uint64_t messages = 0;   ///< number of its latest record of a message
};

/// Calls of any thread.
class Recording {
 public:
  virtual ~Recording() = default;
  /// Returns 32 hexadecimal digits, equal on all ranks.
  [[nodiscard]] virtual std::string communicator() const = 0;
  [[nodiscard]] virtual uint32_t rank_count() const = 0;
  /// Returns when the communicator was made, by now_ns().
  [[nodiscard]] virtual uint64_t made_ns() const = 0;
  [[nodiscard]] virtual RecordedRank rank(uint32_t rank) const = 0;
  /// Returns none if the rank has not entered it, is recorded_operation_count further, or is writing it just now.
  [[nodiscard]] virtual std::optional<RecordedOperation> operation(uint32_t rank, uint64_t number) const = 0;
  /// Returns the record of a message that the rank has begun, or none as for operations.
  [[nodiscard]] virtual std::optional<RecordedMessage> message(uint32_t rank, uint64_t record) const = 0;
  /// Returns the figures of what the rank has completed since the communicator was made.
  [[nodiscard]] virtual RecordedStatistics statistics(uint32_t rank) const = 0;
  /// Returns none if it is not measured. Ranks on one host need none.
  [[nodiscard]] virtual std::optional<ClockOffset> clock_offset() const = 0;
  [[nodiscard]] virtual std::optional<Error> failure() const = 0;
  /// Returns whether a rank has written it to a file after the failure.
  [[nodiscard]] virtual bool dumped() const = 0;
};

}  // namespace rondo
