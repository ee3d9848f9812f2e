// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/board.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "src/base/clock.h"
#include "src/proto/memory.h"

namespace rondo::shm {
namespace {

constexpr uint64_t failure_look_interval_ns = 100'000;
constexpr int failure_looks_most = 1'000;
constexpr uint32_t failure_being_written = 1;
constexpr uint32_t failure_complete = 2;

constexpr uint64_t join_words(uint32_t low, uint32_t high) { return uint64_t{high} << 32 | low; }
constexpr uint32_t low_of(uint64_t word) { return static_cast<uint32_t>(word); }
constexpr uint32_t high_of(uint64_t word) { return static_cast<uint32_t>(word >> 32); }

constexpr uint64_t pack_shape(const PlanChoice &shape) {
  return static_cast<uint64_t>(shape.algorithm) | static_cast<uint64_t>(shape.protocol) << 16 |
         uint64_t{shape.channels} << 32;
}

PlanChoice unpack_shape(uint64_t word, uint64_t chunk_bytes) {
  return {static_cast<rondo_algorithm_t>(word & 0xFFFF), static_cast<rondo_protocol_t>(word >> 16 & 0xFFFF),
          high_of(word), chunk_bytes};
}

std::atomic_ref<uint32_t> bell_of(RankBoard &board) { return std::atomic_ref<uint32_t>(board.bell); }

}  // namespace

void enter(RankBoard &board, uint64_t operation, const Entered &what) {
  OperationRecord &record = board.records[operation % record_count];
  const Signature &signature = what.signature;
  memory::store_release(record.operation, 0);  // pairs with the second look in entered()
  memory::store_release(record.collective_and_type, join_words(signature.collective, signature.type));
  memory::store_release(record.op_and_root, join_words(signature.op, signature.root));
  memory::store_release(record.count, signature.count);
  memory::store_release(record.counts_hash, signature.counts_hash);
  memory::store_release(record.shape, pack_shape(what.shape));
  memory::store_release(record.chunk_bytes, what.shape.chunk_bytes);
  memory::store_release(record.operation, operation);  // pairs with the first look in entered()
  memory::store_release(board.entered, operation);     // pairs with load_acquire of those who report on this rank
}

std::optional<Entered> entered(const RankBoard &board, uint64_t operation) {
  const OperationRecord &record = board.records[operation % record_count];
  if (memory::load_acquire(record.operation) != operation) return std::nullopt;  // first look
  const uint64_t collective_and_type = memory::load_acquire(record.collective_and_type);
  const uint64_t op_and_root = memory::load_acquire(record.op_and_root);
  Entered what;
  what.signature.collective = low_of(collective_and_type);
  what.signature.type = high_of(collective_and_type);
  what.signature.op = low_of(op_and_root);
  what.signature.root = high_of(op_and_root);
  what.signature.count = memory::load_acquire(record.count);
  what.signature.counts_hash = memory::load_acquire(record.counts_hash);
  const uint64_t shape = memory::load_acquire(record.shape);
  what.shape = unpack_shape(shape, memory::load_acquire(record.chunk_bytes));
  if (memory::load_acquire(record.operation) != operation) return std::nullopt;  // second look: it moved on
  return what;
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
  // Its writer needs microseconds; if it was killed in the middle of them nobody will finish the record.
  for (int attempt = 0; attempt < failure_looks_most && !complete(); ++attempt) sleep_for_ns(failure_look_interval_ns);
  if (!complete()) return std::nullopt;
  Error error;
  error.status = static_cast<rondo_status_t>(failure.status);
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
  bell_of(board).fetch_add(1, std::memory_order_release);  // pairs with the look at the bell in wait_for_word()
  wake_word(board.bell);
}

uint32_t prepare_sleep(RankBoard &board) {
  const uint32_t ticket = bell_of(board).load(std::memory_order_acquire);  // pairs with ring_always()
  memory::store_sync(board.sleeping, 1);                                   // pairs with load_sync in ring()
  return ticket;
}

void sleep(RankBoard &board, uint32_t ticket, uint64_t timeout_ns) {
  wait_for_word(board.bell, ticket, timeout_ns);
}

void cancel_sleep(RankBoard &board) { memory::store_release(board.sleeping, 0); }  // pairs with load_sync in ring()

}  // namespace rondo::shm
