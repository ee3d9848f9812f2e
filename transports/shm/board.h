// SPDX-License-Identifier: Apache-2.0
// The ranks of a host show each other which operation they are in, and a bell that wakes them. One record more holds
// the communicator's first failure. All words are accessed through src/proto/memory.h; each has one writer, except the
// bell and the failure.
//
// The records of a rank's operations serve two ends: peers check there whether they agree, and together they are the
// flight recorder (docs/recorder.md). They lie in shared memory, so they outlive the rank that wrote them.
#pragma once

#include <cstdint>
#include <optional>

#include "src/base/result.h"
#include "src/proto/connection.h"
#include "src/links/recording.h"
#include "transports/shm/note_record.h"

namespace rondo::shm {

/// An operation that a rank has entered: one cache line. It is written word by word, `operation` last, which is 0 while
/// the others change. `end` is written when the operation has ended.
struct alignas(cache_line_bytes) OperationRecord {
  uint64_t operation = 0;
  uint64_t call = 0;  ///< collective, type, operation, root, see pack_call()
  uint64_t count = 0;
  uint64_t counts_hash = 0;
  uint64_t choice = 0;  ///< algorithm, protocol, channels, history, see pack_choice()
  uint64_t chunk_bytes = 0;
  uint64_t entered_ticks = 0;
  uint64_t end = 0;  ///< ticks << 2 | OperationState; 0 while it runs
};
static_assert(sizeof(OperationRecord) == cache_line_bytes);

/// Counters of the completed operations of one collective; written by the rank alone.
struct alignas(cache_line_bytes) CollectiveCounters {
  uint64_t operations = 0;
  uint64_t bytes = 0;
  uint64_t in_call_ticks = 0;  ///< in flight, in the caller's thread
  uint64_t behind_ticks = 0;   ///< in flight, elsewhere: on a stream or a device
  uint64_t waited_ns = 0;      ///< in which callers waited for the others
};

struct alignas(cache_line_bytes) RankCounters {
  uint64_t on_device = 0;       ///< 1: some ran on a device
  uint64_t last_end_ticks = 0;  ///< of the latest on a device
  uint64_t group_rank = 0;      ///< 1 + the rank's number where ranks of other hosts count as well; 0 if equal to here
  CollectiveCounters collectives[counted_collective_count];
};
static_assert(sizeof(RankCounters) == (1 + counted_collective_count) * cache_line_bytes);

struct alignas(cache_line_bytes) RankBoard {
  // Written by the rank.
  uint64_t entered = 0;             ///< number of its latest operation
  uint64_t completed = 0;           ///< number of the latest that is complete
  uint64_t state = 0;               ///< RankState
  uint64_t process = 0;             ///< process id
  uint64_t segment_descriptor = 0;  ///< the segment's descriptor in that process: can peers open it there?
  uint64_t probe_address = 0;       ///< of a word in that process that holds `probe`: can peers read it there?
  uint64_t probe = 0;
  uint64_t running = 0;             ///< 1 while an executor may read what peers have exported
  // The bell: `sleeping` is written by the rank, `bell` by ranks that wake it.
  alignas(cache_line_bytes) uint64_t sleeping = 0;
  uint32_t bell = 0;  ///< futex word
  uint32_t unused_bell = 0;
  uint64_t process_namespace = 0;  ///< in which `process` counts; written once by the rank
  /// Where and when the rank last waited for long: the time in ms << 16 | 1 + the processor. 0: it has not yet.
  uint64_t processor = 0;
  RankCounters counters;
  OperationRecord records[recorded_operation_count];  ///< of operation n at n % recorded_operation_count
  NoteRecord notes[kept_note_count];                  ///< of note n at n % kept_note_count
};
static_assert(sizeof(RankBoard) == (3 + counted_collective_count + recorded_operation_count) * cache_line_bytes +
                                       kept_note_count * sizeof(NoteRecord));

/// The first failure of the communicator on this host; the first writer wins.
struct alignas(cache_line_bytes) SharedFailure {
  uint64_t state = 0;  ///< 0 none, 1 being written, 2 complete; the writer's rank is in the high 32 bits
  uint64_t status = 0;
  uint64_t rank_and_peer = 0;  ///< low, high 32 bits, as int32
  uint64_t operation = 0;
  char message[928] = {};
};
static_assert(sizeof(SharedFailure) == 15 * cache_line_bytes);

/// Enters `operation` in the rank's own board.
void enter(RankBoard &board, uint64_t operation, const OperationInfo &entered, uint64_t ticks);

/// Completes `operation` in the rank's own board, and counts it. If it was not entered, only the counts change.
void complete(RankBoard &board, uint64_t operation, const OperationCost &cost, uint64_t ticks);
/// Counts a message that `board`'s rank has sent or received. in_call: the caller's thread ran it.
void count_message(RankBoard &board, bool sends, uint64_t bytes, uint64_t ticks, bool in_call);
/// Ends `operation` there as failed.
void fail(RankBoard &board, uint64_t operation, uint64_t ticks);

/// Returns what `board`'s rank entered as `operation`, or none if it has not, or is recorded_operation_count further.
[[nodiscard]] std::optional<OperationInfo> entered(const RankBoard &board, uint64_t operation);

/// An operation with its times in ticks, and as plain numbers, since a stranger's record may hold any.
struct TimedOperation {
  Signature signature;
  uint32_t algorithm = 0;
  uint32_t protocol = 0;
  uint32_t kernel = 0;
  uint32_t channels = 0;
  uint64_t chunk_bytes = 0;
  uint32_t history = 0;
  uint64_t entered_ticks = 0;
  uint64_t ended_ticks = 0;  ///< 0: running
  OperationState state = OperationState::running;

  /// Algorithm, protocol and kernel must be known ones.
  [[nodiscard]] OperationInfo what() const;
};
[[nodiscard]] std::optional<TimedOperation> timed_operation(const RankBoard &board, uint64_t operation);

/// Makes `error` the communicator's failure, unless there is one already. `writer` is the rank that calls.
void raise_failure(SharedFailure &failure, uint32_t writer, const Error &error);

/// Says whether there is a failure, perhaps still being written. It costs one load.
[[nodiscard]] bool failed(const SharedFailure &failure);

/// Returns the failure once it is complete; none if its writer takes far too long, as it died in the middle of it.
[[nodiscard]] std::optional<Error> read_failure(const SharedFailure &failure);
/// Returns the rank that began to write it.
[[nodiscard]] uint32_t failure_writer(const SharedFailure &failure);

/// Wakes the rank of `board` if it sleeps; call after a sync store (src/proto/memory.h).
void ring(RankBoard &board);
/// Wakes the rank of `board` whether or not it says that it sleeps.
void ring_always(RankBoard &board);
[[nodiscard]] uint32_t prepare_sleep(RankBoard &board);
void sleep(RankBoard &board, uint32_t ticket, uint64_t timeout_ns);
void cancel_sleep(RankBoard &board);

}  // namespace rondo::shm
