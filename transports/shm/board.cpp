// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/board.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>

#include "src/base/clock.h"
#include "src/base/cpu.h"
#include "src/proto/memory.h"

namespace rondo::shm {
namespace {

constexpr uint64_t failure_look_interval_ns = 100'000;
constexpr int failure_looks_max = 1'000;
constexpr uint32_t failure_being_written = 1;
constexpr uint32_t failure_complete = 2;

constexpr uint64_t join_words(uint32_t low, uint32_t high) { return uint64_t{high} << 32 | low; }
constexpr uint32_t low_of(uint64_t word) { return static_cast<uint32_t>(word); }
constexpr uint32_t high_of(uint64_t word) { return static_cast<uint32_t>(word >> 32); }

constexpr uint64_t pack_call(const Signature &signature) {
  assert(signature.collective < 256 && signature.type < 256 && signature.op < 256);
  return uint64_t{signature.collective} | uint64_t{signature.type} << 8 | uint64_t{signature.op} << 16 |
         uint64_t{signature.root} << 32;
}

void unpack_call(uint64_t word, Signature &signature) {
  signature.collective = static_cast<uint32_t>(word & 0xFF);
  signature.type = static_cast<uint32_t>(word >> 8 & 0xFF);
  signature.op = static_cast<uint32_t>(word >> 16 & 0xFF);
  signature.root = high_of(word);
}

constexpr uint64_t pack_choice(const OperationInfo &what) {
  const PlanChoice &choice = what.choice;
  const auto algorithm = static_cast<uint64_t>(choice.algorithm), protocol = static_cast<uint64_t>(choice.protocol);
  const auto kernel = static_cast<uint64_t>(choice.kernel);
  assert(algorithm < 256 && protocol < 16 && kernel < 16 && choice.channels < 65536);
  return algorithm | protocol << 8 | kernel << 12 | uint64_t{choice.channels} << 16 | uint64_t{what.history} << 32;
}

void unpack_choice(uint64_t word, TimedOperation &timed) {
  timed.algorithm = static_cast<uint32_t>(word & 0xFF);
  timed.protocol = static_cast<uint32_t>(word >> 8 & 0xF);
  timed.kernel = static_cast<uint32_t>(word >> 12 & 0xF);
  timed.channels = static_cast<uint32_t>(word >> 16 & 0xFFFF);
  timed.history = high_of(word);
}

/// Adds to a counter by relaxed accesses. The rank is the only writer, and readers need no order among counters.
void add_own(uint64_t &word, uint64_t more) { memory::store_relaxed(word, memory::load_relaxed(word) + more); }

void count(RankCounters &counters, const OperationCost &cost, uint64_t since_ticks, uint64_t ticks) {
  assert(cost.collective < counted_collective_count);
  if (!cost.ran) return;
  if (cost.on_device) {
    since_ticks = std::max(since_ticks, memory::load_relaxed(counters.last_end_ticks));
    memory::store_relaxed(counters.last_end_ticks, ticks);
    memory::store_relaxed(counters.on_device, 1);
  }
  const uint64_t in_flight = ticks > since_ticks ? ticks - since_ticks : 0;
  CollectiveCounters &own = counters.collectives[cost.collective];
  add_own(own.operations, 1);
  add_own(own.bytes, cost.bytes);
  add_own(cost.in_call ? own.in_call_ticks : own.behind_ticks, in_flight);
  if (cost.waited_ns != 0) add_own(own.waited_ns, cost.waited_ns);
}

/// Ends the record. Returns the time at which the operation was entered, or `otherwise` if the record is overwritten
/// already.
uint64_t end_record(RankBoard &board, uint64_t operation, OperationState state, uint64_t ticks, uint64_t otherwise) {
  OperationRecord &record = board.records[operation % recorded_operation_count];
  if (memory::load_relaxed(record.operation) != operation) return otherwise;     // relaxed: this rank's own word
  memory::store_release(record.end, ticks << 2 | static_cast<uint64_t>(state));  // pairs with timed_operation()
  return memory::load_relaxed(record.entered_ticks);                             // relaxed: this rank's own word
}

std::atomic_ref<uint32_t> bell_of(RankBoard &board) { return std::atomic_ref<uint32_t>(board.bell); }

}  // namespace

void enter(RankBoard &board, uint64_t operation, const OperationInfo &what, uint64_t ticks) {
  OperationRecord &record = board.records[operation % recorded_operation_count];
  memory::store_release(record.operation, 0);  // pairs with the second look in timed_operation()
  memory::store_release(record.call, pack_call(what.signature));
  memory::store_release(record.count, what.signature.count);
  memory::store_release(record.counts_hash, what.signature.counts_hash);
  memory::store_release(record.choice, pack_choice(what));
  memory::store_release(record.chunk_bytes, what.choice.chunk_bytes);
  memory::store_release(record.entered_ticks, ticks);
  memory::store_release(record.end, 0);
  memory::store_release(record.operation, operation);  // pairs with the first look in timed_operation()
  memory::store_release(board.entered, operation);     // pairs with load_acquire of ranks that report on this one
}

void complete(RankBoard &board, uint64_t operation, const OperationCost &cost, uint64_t ticks) {
  // On a device, the record may be overwritten already. The time of the operation then counts from the end of the
  // previous operation.
  const uint64_t otherwise = cost.on_device ? memory::load_relaxed(board.counters.last_end_ticks) : ticks;
  const uint64_t since_ticks = end_record(board, operation, OperationState::completed, ticks, otherwise);
  memory::store_release(board.completed, operation);  // pairs with load_acquire of ranks that report on this one
  prefetch_for_write(&board.records[(operation + 1) % recorded_operation_count]);  // not cached: it was used long ago
  count(board.counters, cost, since_ticks, ticks);
}

void count_message(RankBoard &board, bool sends, uint64_t bytes, uint64_t ticks, bool in_call) {
  CollectiveCounters &own = board.counters.collectives[sends ? RONDO_SEND : RONDO_RECV];
  add_own(own.operations, 1);
  add_own(own.bytes, bytes);
  add_own(in_call ? own.in_call_ticks : own.behind_ticks, ticks);
}

void fail(RankBoard &board, uint64_t operation, uint64_t ticks) {
  static_cast<void>(end_record(board, operation, OperationState::failed, ticks, 0));
}

OperationInfo TimedOperation::what() const {
  return {signature,
          {static_cast<rondo_algorithm_t>(algorithm), static_cast<rondo_protocol_t>(protocol), channels, chunk_bytes,
           static_cast<rondo_kernel_t>(kernel)},
          history};
}

std::optional<TimedOperation> timed_operation(const RankBoard &board, uint64_t operation) {
  const OperationRecord &record = board.records[operation % recorded_operation_count];
  if (operation == 0 || memory::load_acquire(record.operation) != operation) return std::nullopt;  // first look
  TimedOperation timed;
  unpack_call(memory::load_acquire(record.call), timed.signature);
  timed.signature.count = memory::load_acquire(record.count);
  timed.signature.counts_hash = memory::load_acquire(record.counts_hash);
  unpack_choice(memory::load_acquire(record.choice), timed);
  timed.chunk_bytes = memory::load_acquire(record.chunk_bytes);
  timed.entered_ticks = memory::load_acquire(record.entered_ticks);
  const uint64_t end = memory::load_acquire(record.end);
  if (memory::load_acquire(record.operation) != operation) return std::nullopt;  // second look: it moved on
  timed.ended_ticks = end >> 2;
  timed.state = static_cast<OperationState>(end & 3);
  return timed;
}

std::optional<OperationInfo> entered(const RankBoard &board, uint64_t operation) {
  const auto timed = timed_operation(board, operation);
  if (!timed) return std::nullopt;
  return timed->what();
}

void raise_failure(SharedFailure &failure, uint32_t writer, const Error &error) {
  if (!memory::exchange_if(failure.state, 0, join_words(failure_being_written, writer))) return;
  failure.status = static_cast<uint64_t>(error.status);
  failure.rank_and_peer = join_words(static_cast<uint32_t>(error.rank), static_cast<uint32_t>(error.peer));
  failure.operation = error.operation;
  const size_t length = std::min(error.message.size(), sizeof failure.message - 1);
  std::memcpy(failure.message, error.message.data(), length);
  failure.message[length] = '\0';
  memory::store_sync(failure.state, join_words(failure_complete, writer));  // pairs with load_acquire in read_failure()
}

bool failed(const SharedFailure &failure) { return memory::load_sync(failure.state) != 0; }  // see set_running()

std::optional<Error> read_failure(const SharedFailure &failure) {
  const auto complete = [&] { return low_of(memory::load_acquire(failure.state)) == failure_complete; };
  // The writer needs only microseconds. If it was killed while writing, the record stays incomplete.
  for (int attempt = 0; attempt < failure_looks_max && !complete(); ++attempt) sleep_for_ns(failure_look_interval_ns);
  if (!complete()) return std::nullopt;
  Error error;
  // In the segment of an unknown process, the status may be any number.
  const bool is_known = failure.status >= RONDO_ERROR_INVALID_ARGUMENT && failure.status <= RONDO_ERROR_REVOKED;
  error.status = is_known ? static_cast<rondo_status_t>(failure.status) : RONDO_ERROR_INTERNAL;
  error.rank = static_cast<int32_t>(low_of(failure.rank_and_peer));
  error.peer = static_cast<int32_t>(high_of(failure.rank_and_peer));
  error.operation = failure.operation;
  error.message.assign(failure.message, ::strnlen(failure.message, sizeof failure.message));
  return error;
}

uint32_t failure_writer(const SharedFailure &failure) { return high_of(memory::load_acquire(failure.state)); }

void ring(RankBoard &board) {
  if (memory::load_sync(board.sleeping) != 0) ring_always(board);  // pairs with store_sync in prepare_sleep()
}

void ring_always(RankBoard &board) {
  bell_of(board).fetch_add(1, std::memory_order_release);  // pairs with the check of the bell in wait_for_word()
  wake_word(board.bell);
}

uint32_t prepare_sleep(RankBoard &board) {
  const uint32_t ticket = bell_of(board).load(std::memory_order_acquire);  // pairs with ring_always()
  memory::store_sync(board.sleeping, 1);                                   // pairs with load_sync in ring()
  return ticket;
}

void sleep(RankBoard &board, uint32_t ticket, uint64_t timeout_ns) { wait_for_word(board.bell, ticket, timeout_ns); }

void cancel_sleep(RankBoard &board) { memory::store_release(board.sleeping, 0); }  // pairs with load_sync in ring()

void post_note(std::span<NoteRecord, note_record_count> records, const Note &note) {
  const bool is_of_window = (note.number & window_note_bit) != 0;
  NoteRecord &record = records[is_of_window ? kept_note_count + note.number % kept_window_note_count
                                            : note.number % kept_note_count];
  memory::store_release(record.revision, 0);  // pairs with the second look in read_notes()
  memory::store_release(record.number, note.number);
  for (size_t at = 0; at < Note::word_count; ++at) memory::store_release(record.words[at], note.words[at]);
  memory::store_release(record.revision, note.revision);  // pairs with the first look in read_notes()
}

std::vector<Note> read_notes(std::span<const NoteRecord, note_record_count> records) {
  std::vector<Note> notes;
  for (const NoteRecord &record : records) {
    Note note;
    note.revision = memory::load_acquire(record.revision);  // first look
    if (note.revision == 0) continue;
    note.number = memory::load_acquire(record.number);
    for (size_t at = 0; at < Note::word_count; ++at) note.words[at] = memory::load_acquire(record.words[at]);
    if (memory::load_acquire(record.revision) == note.revision) notes.push_back(note);  // second look
  }
  return notes;
}

}  // namespace rondo::shm
