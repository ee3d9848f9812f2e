// SPDX-License-Identifier: Apache-2.0
// This interface gives the content of the flight recorder as plain data, read from memory that the ranks of a host
// share. A rank of the communicator reads it, or `rondo status` in another process. Reading does not disturb the ranks,
// and the data may be slightly old.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "src/base/result.h"
#include "src/links/message_boards.h"
#include "src/plan/plan.h"

namespace rondo {

/// The number of latest operations that are kept for each rank.
inline constexpr uint64_t recorded_operation_count = 1024;

/// An operation as a rank has entered it. Ranks that agree have equal values.
struct OperationInfo {
  Signature signature;
  PlanChoice choice;
  uint32_t history = 0;  ///< digest of the history; it differs if ranks disagree on this operation or an earlier one

  bool operator==(const OperationInfo &) const = default;
};

/// The state of a rank. `exited` means that its process has called exit() between operations, without a destroy.
/// `aborted` means that it has called rondo_comm_abort() between operations. A destroy does not change that.
enum class RankState : uint64_t { absent = 0, alive = 1, finalized = 2, left = 3, exited = 4, aborted = 5 };

/// Returns whether the rank has destroyed or aborted its communicator, so that it makes no more calls of any kind.
[[nodiscard]] constexpr bool has_left(RankState state) {
  return state == RankState::left || state == RankState::aborted;
}
/// Returns whether the rank will begin no more operations, because it has left or finalized.
[[nodiscard]] constexpr bool has_ended_calls(RankState state) {
  return has_left(state) || state == RankState::finalized;
}

enum class OperationState : uint64_t { running = 0, completed = 1, failed = 2 };

struct RecordedOperation {
  uint64_t number = 0;
  OperationInfo what;
  OperationState state = OperationState::running;
  uint64_t entered_ns = 0;  ///< time of entering, by now_ns()
  uint64_t ended_ns = 0;    ///< time of the end, by now_ns(); 0 while it runs
};

/// One end of a message.
struct RecordedMessage {
  MessageInfo what;
  uint64_t batch = 0;  ///< number of the rank's batch that has the message, from 1
  OperationState state = OperationState::running;
  uint64_t begun_ns = 0;  ///< time of the begin, by now_ns()
  uint64_t ended_ns = 0;  ///< time of the end, by now_ns(); 0 while it runs
};

/// The cost of one operation. It goes into the statistics of the rank that completes the operation.
struct OperationCost {
  uint32_t collective = 0;
  bool ran = true;  ///< false: only captured into a graph, so the operation does not count
  /// True if the caller's own thread ran the operation, so that the caller waited for its whole duration.
  bool in_call = false;
  /// True if the operation was enqueued on a device, where it began after the previous operation. Rondo cannot measure
  /// how long a caller waits for a device.
  bool on_device = false;
  uint64_t bytes = 0;      ///< size of the whole vector
  uint64_t waited_ns = 0;  ///< on a host stream: the time in which callers waited for the operation
};

/// Completed operations of one collective.
struct RecordedCounts {
  uint64_t operations = 0;
  uint64_t bytes = 0;         ///< sum of the sizes of the whole vectors
  uint64_t in_flight_ns = 0;  ///< time from entering to the end
  uint64_t exposed_ns = 0;    ///< part of in_flight_ns in which a caller waited

  void add(const RecordedCounts &more) {
    operations += more.operations;
    bytes += more.bytes;
    in_flight_ns += more.in_flight_ns;
    exposed_ns += more.exposed_ns;
  }
};

/// A bound above the number of collectives. So the memory layout stays when a collective is added.
inline constexpr uint32_t counted_collective_count = 16;

struct RecordedStatistics {
  std::array<RecordedCounts, counted_collective_count> collectives{};  ///< indexed by rondo_collective_t
  bool waits_seen = true;  ///< false if operations ran on a device, where exposed_ns has no meaning

  [[nodiscard]] RecordedCounts total() const {
    RecordedCounts sum;
    for (const RecordedCounts &counts : collectives) sum.add(counts);
    return sum;
  }
};

/// The offset of this host's clock. Its now_ns() plus the offset equals now_ns() of rank 0's host.
struct ClockOffset {
  int64_t offset_ns = 0;
  uint64_t uncertainty_ns = 0;  ///< largest possible distance from the true offset
};

enum class ProcessState { unknown, running, stopped, gone };

struct RecordedRank {
  RankState state = RankState::absent;
  uint64_t group_rank = 0;  ///< number of the rank among the ranks of all hosts
  uint64_t process = 0;
  ProcessState process_state = ProcessState::unknown;
  uint64_t entered = 0;    ///< number of the latest operation, or 0
  uint64_t completed = 0;  ///< number of the latest operation that is complete
  BatchCounts batches;     ///< counts of batches of messages
  uint64_t messages = 0;   ///< number of the latest message record
  DevicePlace device;
};

/// The recording of one communicator on this host. Any thread may call it.
class Recording {
 public:
  virtual ~Recording() = default;
  /// Returns the communicator's number as 32 hexadecimal digits, equal on all ranks.
  [[nodiscard]] virtual std::string communicator() const = 0;
  [[nodiscard]] virtual uint32_t rank_count() const = 0;
  /// Returns when the communicator was made, by now_ns().
  [[nodiscard]] virtual uint64_t made_ns() const = 0;
  [[nodiscard]] virtual RecordedRank rank(uint32_t rank) const = 0;
  /// Returns nothing if the rank has not entered the operation, has overwritten its record, or is writing it now.
  [[nodiscard]] virtual std::optional<RecordedOperation> operation(uint32_t rank, uint64_t number) const = 0;
  /// Returns the record of a message that the rank has begun. Returns nothing in the same cases as operation().
  [[nodiscard]] virtual std::optional<RecordedMessage> message(uint32_t rank, uint64_t record) const = 0;
  /// Returns the sums over all operations that the rank has completed since the communicator was made.
  [[nodiscard]] virtual RecordedStatistics statistics(uint32_t rank) const = 0;
  /// Returns the offset, or nothing if it is not measured. A single host needs no offset.
  [[nodiscard]] virtual std::optional<ClockOffset> clock_offset() const = 0;
  [[nodiscard]] virtual std::optional<Error> failure() const = 0;
  /// Returns whether a rank has written the recording to a file after the failure.
  [[nodiscard]] virtual bool dumped() const = 0;
};

/// The flight recorder holds the latest operations of this host's ranks. After a failure, one of these ranks writes
/// them to a file. Any thread may call the functions.
class FlightRecorder {
 public:
  virtual ~FlightRecorder() = default;

  /// Returns the recording. The result stays readable after the flight recorder is destroyed.
  [[nodiscard]] virtual std::unique_ptr<Recording> recording() const = 0;
  /// Sets the number that Recording::communicator() returns. It is equal on all hosts of a communicator. One rank of
  /// the host calls this function, once.
  virtual void set_communicator(const std::array<uint64_t, 2> &id) = 0;
  /// Sets the number that this host's rank `rank` has among the ranks of all hosts.
  virtual void set_group_rank(uint32_t rank, uint32_t group_rank) = 0;
  /// Sets the offset of this host's clock. It replaces an earlier measurement.
  virtual void set_clock_offset(const ClockOffset &offset) = 0;
  /// Returns true to the first rank of this host that calls it. That rank writes the recording to a file, and then
  /// calls end_dump(true).
  [[nodiscard]] virtual bool claim_dump() = 0;
  /// Ends the claim of claim_dump(). If `finished` is false, another rank can claim the dump.
  virtual void end_dump(bool finished) = 0;
};

}  // namespace rondo
