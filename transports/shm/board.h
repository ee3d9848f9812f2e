// SPDX-License-Identifier: Apache-2.0
// Each rank of a host has a board in shared memory. The board shows the other ranks which operation the rank is in, and
// has a bell that wakes the rank. Another record holds the communicator's first failure. All words are accessed through
// src/proto/memory.h. Each word has one writer, except the bell and the failure.
//
// A rank's operation records have two uses: peers check in them whether the ranks agree, and together they are the
// flight recorder (docs/recorder.md). Because they are in shared memory, they outlive the rank that wrote them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/base/result.h"
#include "src/links/ranks.h"
#include "src/links/recording.h"
#include "src/proto/connection.h"

namespace rondo::shm {

/// The record of an operation that a rank has entered, in one cache line. The rank writes it word by word. `operation`
/// is 0 while the other words change, and is written last. `end` is written when the operation ends.
struct alignas(cache_line_bytes) OperationRecord {
  uint64_t operation = 0;
  uint64_t call = 0;  ///< collective, type, operation and root, see pack_call()
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
  uint64_t in_call_ticks = 0;  ///< time from entry to end, if the caller's thread ran the operation
  uint64_t behind_ticks = 0;   ///< the same, if a stream or a device ran it
  uint64_t waited_ns = 0;      ///< time in which callers waited for other ranks
};

/// One note. It is written word by word, `revision` last. The revision is 0 while the other words change.
struct alignas(cache_line_bytes) NoteRecord {
  uint64_t revision = 0;
  uint64_t number = 0;
  uint64_t words[Note::word_count] = {};
};

inline constexpr size_t note_record_count = kept_note_count + kept_window_note_count;

struct alignas(cache_line_bytes) RankCounters {
  uint64_t on_device = 0;       ///< 1 if some operation ran on a device
  uint64_t last_end_ticks = 0;  ///< end of the latest operation on a device
  uint64_t group_rank = 0;      ///< 1 + the rank's number in the whole group; 0 if it equals its number on this host
  CollectiveCounters collectives[counted_collective_count];
};
static_assert(sizeof(RankCounters) == (1 + counted_collective_count) * cache_line_bytes);

struct alignas(cache_line_bytes) RankBoard {
  // Written by the rank.
  uint64_t entered = 0;             ///< number of its latest operation
  uint64_t completed = 0;           ///< number of its latest completed operation
  uint64_t state = 0;               ///< RankState
  uint64_t process = 0;             ///< process id
  uint64_t segment_descriptor = 0;  ///< its descriptor of the segment: peers try to open it
  uint64_t probe_address = 0;       ///< address of `probe` in the rank's process; peers try to read it
  uint64_t probe = 0;
  uint64_t running = 0;             ///< 1 while an executor may read buffers that peers exported
  // The bell. Its rank writes `sleeping`, and the ranks that wake it write `bell`.
  alignas(cache_line_bytes) uint64_t sleeping = 0;
  uint32_t bell = 0;  ///< futex word
  uint32_t unused_bell = 0;
  uint64_t process_namespace = 0;  ///< PID namespace of `process`; written once by the rank
  /// The processor and the time of the rank's last long wait: ms << 16 | 1 + the processor. 0 before the first one.
  uint64_t processor = 0;
  RankCounters counters;
  OperationRecord records[recorded_operation_count];  ///< operation n is at n % recorded_operation_count
  NoteRecord notes[note_record_count];                ///< note n is at n % kept_note_count, notes of windows follow
};
static_assert(sizeof(RankBoard) == (3 + counted_collective_count + recorded_operation_count) * cache_line_bytes +
                                       note_record_count * sizeof(NoteRecord));

/// The first failure of the communicator on this host; the first writer wins.
struct alignas(cache_line_bytes) SharedFailure {
  uint64_t state = 0;  ///< 0 none, 1 incomplete, 2 complete; the writer's rank is in the high 32 bits
  uint64_t status = 0;
  uint64_t rank_and_peer = 0;  ///< rank in the low, peer in the high 32 bits, as int32
  uint64_t operation = 0;
  char message[928] = {};
};
static_assert(sizeof(SharedFailure) == 15 * cache_line_bytes);

/// Records in the rank's own board that it entered `operation`.
void enter(RankBoard &board, uint64_t operation, const OperationInfo &entered, uint64_t ticks);

/// Completes `operation` in the rank's own board, and adds its cost to the counters. If its record does not exist any
/// more, only the counters change.
void complete(RankBoard &board, uint64_t operation, const OperationCost &cost, uint64_t ticks);
/// Counts a message that `board`'s rank has sent or received. `in_call` says whether the caller's thread ran it.
void count_message(RankBoard &board, bool sends, uint64_t bytes, uint64_t ticks, bool in_call);
/// Records in the rank's own board that `operation` failed.
void fail(RankBoard &board, uint64_t operation, uint64_t ticks);

/// Returns what `board`'s rank entered as `operation`. Returns nothing if the rank has not entered it, or if its record
/// is overwritten.
[[nodiscard]] std::optional<OperationInfo> entered(const RankBoard &board, uint64_t operation);

/// An operation with its times in ticks. Its values are plain numbers, because the record of an unknown process may
/// hold anything.
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

  /// Converts the record. Algorithm, protocol and kernel must be known enumerators.
  [[nodiscard]] OperationInfo what() const;
};
[[nodiscard]] std::optional<TimedOperation> timed_operation(const RankBoard &board, uint64_t operation);

/// Makes `error` the communicator's failure, unless one exists already. `writer` is the calling rank.
void raise_failure(SharedFailure &failure, uint32_t writer, const Error &error);

/// Says whether a failure exists, even if it is still being written. This costs one load.
[[nodiscard]] bool failed(const SharedFailure &failure);

/// Returns the failure once it is complete. Returns nothing if its writer takes far too long, because it died while
/// writing.
[[nodiscard]] std::optional<Error> read_failure(const SharedFailure &failure);
/// Returns the rank that began to write the failure.
[[nodiscard]] uint32_t failure_writer(const SharedFailure &failure);

/// Wakes the rank of `board` if it sleeps. Call it after a sync store (src/proto/memory.h).
void ring(RankBoard &board);
/// Wakes the rank of `board` without checking whether it sleeps.
void ring_always(RankBoard &board);
[[nodiscard]] uint32_t prepare_sleep(RankBoard &board);
void sleep(RankBoard &board, uint32_t ticket, uint64_t timeout_ns);
void cancel_sleep(RankBoard &board);

/// Writes the note in its record. `records` belong to this rank, and one thread writes at a time.
void post_note(std::span<NoteRecord, note_record_count> records, const Note &note);

/// Returns the notes of a rank, except one that is being written.
[[nodiscard]] std::vector<Note> read_notes(std::span<const NoteRecord, note_record_count> records);

}  // namespace rondo::shm
