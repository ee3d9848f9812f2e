// SPDX-License-Identifier: Apache-2.0
#include "src/engine/direct.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "src/base/cpu.h"
#include "src/engine/fold.h"
#include "src/engine/stream_copy.h"
#include "src/proto/memory.h"

namespace rondo {
namespace {

// Larger chunks where all lend: with too few cores each costs turns of the scheduler.
constexpr uint64_t roomy_chunk_factor = 4;
constexpr uint64_t crowded_chunk_factor = 16;
constexpr uint64_t fetch_back_bytes_max = 4096;
constexpr uint64_t stream_bytes_min = 16u << 20;  // smaller results are better left in the caches for their reader
constexpr RunOutcome stopped{RunOutcome::Kind::stopped, Fault::none, 0};

RunOutcome fault(Fault what, uint32_t peer) { return {RunOutcome::Kind::fault, what, peer}; }
bool done(const RunOutcome &outcome) { return outcome.kind == RunOutcome::Kind::done; }

bool rounds_every_step(rondo_type_t type) {
  return type == RONDO_FLOAT16 || type == RONDO_BFLOAT16 || type == RONDO_FLOAT8_E4M3 || type == RONDO_FLOAT8_E5M2;
}

void copy_plainly(std::byte *to, const std::byte *from, size_t bytes) { std::memcpy(to, from, bytes); }

/// False: the waiter says stop.
template <class Ready>
bool wait_until(Waiter &waiter, Ready ready) {
  for (uint32_t poll = 0; poll < waiter.poll_count(); ++poll)
    if (ready()) return true;
  while (!ready())
    if (!waiter.idle()) return false;
  waiter.moved();
  return true;
}

}  // namespace

/// One operation.
struct ExchangeEnd::Job {
  const Buffers &buffers;
  const HostReducer &reducer;
  Waiter &waiter;
  uint64_t count;
  uint32_t element_bytes;
  bool single_steps;
  uint64_t chunk_elements;
  uint64_t align_elements;

  [[nodiscard]] uint64_t bytes() const { return count * element_bytes; }
  /// In place the lines of recv are in the cache already, since they were just read.
  [[nodiscard]] bool streams() const { return buffers.send.data != buffers.recv.data && bytes() >= stream_bytes_min; }
  [[nodiscard]] uint64_t chunk_count() const { return (count + chunk_elements - 1) / chunk_elements; }
  /// Elements of chunk `chunk`.
  [[nodiscard]] Range chunk_range(uint64_t chunk) const {
    const uint64_t begin = chunk * chunk_elements;
    return {begin, std::min(chunk_elements, count - begin)};
  }
  /// The part of `chunk` that `rank` of `rank_count` reduces.
  [[nodiscard]] Range part(Range chunk, uint32_t rank, uint32_t rank_count) const {
    const uint64_t size =
        ((chunk.count + rank_count - 1) / rank_count + align_elements - 1) / align_elements * align_elements;
    const uint64_t begin = std::min(size * rank, chunk.count);
    return {chunk.begin + begin, std::min(size, chunk.count - begin)};
  }
};

RunOutcome ExchangeEnd::run(const Plan &plan, const Buffers &buffers, const HostReducer &reducer, Waiter &waiter) {
  const LaneProgram &program = plan.lanes.front().program;
  const auto type = static_cast<rondo_type_t>(plan.key.signature.type);
  Job job{buffers,
          reducer,
          waiter,
          plan.key.signature.count,
          program.element_bytes,
          rounds_every_step(type),
          program.partition.chunk_elements,
          program.partition.align_elements};
  return plan.shape.algorithm == RONDO_ALGORITHM_ONE_SHOT ? run_one_shot(job) : run_two_shot(job);
}

void ExchangeEnd::publish(uint64_t &word, uint64_t value) const {
  if (!wake_) return memory::store_release(word, value);  // P2, C2, R2, G2; pairs with W1, R1, G1
  memory::store_sync(word, value);                        // the same, where a peer may sleep
  for (uint32_t peer = 0; peer < rank_count(); ++peer)
    if (peer != rank_) peers_->wake(peer);
}

RunOutcome ExchangeEnd::run_one_shot(const Job &job) {
  const uint64_t number = ++posts_;
  const uint64_t bytes = job.bytes();
  assert(bytes <= view_.geometry.post_bytes);
  std::byte *const payload = view_.post_payload(rank_, number, bytes);
  if (bytes != 0) std::memcpy(payload, job.buffers.send.data, bytes);  // P1
  publish(view_.post(rank_, number).flag, post_flag(number, job.buffers.signature));

  const uint64_t expected = post_flag(number, job.buffers.signature);
  operands_[rank_] = job.buffers.send.data;  // not the payload, whose lines the peers are taking
  for (uint32_t peer = 0; peer < rank_count(); ++peer) {
    if (peer == rank_) continue;
    operands_[peer] = view_.post_payload(peer, number, bytes);
    const uint64_t &word = view_.post(peer, number).flag;
    uint64_t flag = 0;
    const bool arrived = wait_until(job.waiter, [&] {
      flag = memory::load_sync(word);  // W1, pairs with P2 in publish()
      return is_post(flag, number);
    });
    if (!arrived) return stopped;
    if (flag != expected) return fault(Fault::foreign_slot, peer);
  }
  fetch_back(number + 1, bytes);
  std::byte *const outputs[] = {job.buffers.recv.data};
  if (bytes != 0)
    fold_in_order(job.reducer, operands_, outputs, job.count, job.element_bytes, job.single_steps);  // W2
  return {};
}

/// The lines of the next post are in the peers' caches, since they read post number - 2 there. Asks for them while
/// nobody waits for it: the next post of that size can then be written without waiting for them.
void ExchangeEnd::fetch_back(uint64_t number, uint64_t bytes) const {
  prefetch_for_write(&view_.post(rank_, number));
  const std::byte *const payload = view_.post_payload(rank_, number, bytes);
  const uint64_t most = std::min(bytes, fetch_back_bytes_max);
  for (uint64_t offset = 0; offset < most; offset += cache_line_bytes) prefetch_for_write(payload + offset);
}

RunOutcome ExchangeEnd::run_two_shot(Job &job) {
  if (job.count == 0) return {};
  announce(job);
  contribute(job, 0);
  for (uint64_t step = 1; step < job.chunk_count() + 2; ++step) {
    if (step == 1 && lends_send_ && lends_recv_) {  // before the next chunk, whose size it may change
      if (const RunOutcome met = meet(job); !done(met)) return met;
    }
    if (step < job.chunk_count()) contribute(job, step);
    if (step == 1 && !(lends_send_ && lends_recv_)) {
      if (const RunOutcome met = meet(job); !done(met)) return met;
    }
    if (step - 1 < job.chunk_count()) {
      if (const RunOutcome reduced = reduce(job, step - 1); !done(reduced)) return reduced;
    }
    if (step >= 2) {
      if (const RunOutcome gathered = gather(job, step - 2); !done(gathered)) return gathered;
    }
  }
  chunks_ += job.chunk_count();
  publish(view_.place(rank_).gathered.value, chunks_);  // G2
  if (!lends_send_ && !lends_recv_) return {};
  for (uint32_t peer = 0; peer < rank_count(); ++peer) {
    const uint64_t &gathered = view_.place(peer).gathered.value;
    if (!wait_until(job.waiter, [&] { return memory::load_sync(gathered) >= chunks_; })) return stopped;  // see G2
  }
  return {};
}

bool ExchangeEnd::can_lend(const Window &window, const Job &job) const {
  if (!window.loan.offered) return false;
  for (uint32_t peer = 0; peer < rank_count(); ++peer) {
    if (peer == rank_) continue;
    const auto accepted = accepted_kinds_[peer] & ~kind_bit(PayloadKind::process);  // staging is faster than that
    if (window.loan.choose(accepted, window.data, job.bytes()) == PayloadKind::in_slot) return false;
  }
  return true;
}

void ExchangeEnd::announce(const Job &job) {
  const auto describe = [&](const Window &window, bool lent) {
    LentBuffer buffer;
    buffer.address = reinterpret_cast<uint64_t>(window.data);
    buffer.lent = lent ? 1 : 0;
    if (window.loan.kind != PayloadKind::mapped) return buffer;
    buffer.region = window.loan.region;
    buffer.region_offset = window.loan.region_offset + static_cast<uint64_t>(window.data - window.loan.first);
    buffer.region_bytes = window.loan.region_bytes;
    buffer.descriptor = window.loan.descriptor;
    return buffer;
  };
  lends_send_ = can_lend(job.buffers.send, job);
  lends_recv_ = can_lend(job.buffers.recv, job);
  ExchangeAnnouncement &own = view_.place(rank_).announcement;
  own.fingerprint = job.buffers.signature;
  own.send = describe(job.buffers.send, lends_send_);
  own.recv = describe(job.buffers.recv, lends_recv_);
}

const std::byte *ExchangeEnd::open(uint32_t peer, const LentBuffer &buffer, uint64_t bytes) const {
  SlotHeader header;
  const bool same_process = (accepted_kinds_[peer] & kind_bit(PayloadKind::address)) != 0;
  header.kind = static_cast<uint32_t>(same_process ? PayloadKind::address : PayloadKind::mapped);
  header.address = same_process ? buffer.address : buffer.region_offset;
  header.bytes = bytes;
  header.region = buffer.region;
  header.region_bytes = buffer.region_bytes;
  header.descriptor = buffer.descriptor;
  return peers_->borrow(peer, header, nullptr);
}

/// Waits for every rank's announcement, and opens what they lend. Where all lend both buffers no area of the exchange
/// bounds a chunk: larger ones then save turns, and every rank comes to the same size.
RunOutcome ExchangeEnd::meet(Job &job) {
  bool all_lend = lends_send_ && lends_recv_;
  for (uint32_t peer = 0; peer < rank_count(); ++peer) {
    operands_[peer] = results_[peer] = nullptr;
    if (peer == rank_) continue;
    const ExchangePlace &place = view_.place(peer);
    const uint64_t &contributed = place.contributed.value;
    if (!wait_until(job.waiter, [&] { return memory::load_sync(contributed) > chunks_; })) return stopped;  // R1
    const ExchangeAnnouncement &theirs = place.announcement;
    if (theirs.fingerprint != job.buffers.signature) return fault(Fault::foreign_slot, peer);
    if (theirs.send.lent != 0) operands_[peer] = open(peer, theirs.send, job.bytes());
    if (theirs.recv.lent != 0) results_[peer] = open(peer, theirs.recv, job.bytes());
    all_lend &= theirs.send.lent != 0 && theirs.recv.lent != 0;
    const bool unreadable = (theirs.send.lent != 0 && operands_[peer] == nullptr) ||
                            (theirs.recv.lent != 0 && results_[peer] == nullptr);
    if (unreadable) return fault(Fault::unreadable, peer);
  }
  if (all_lend) job.chunk_elements *= wake_ ? crowded_chunk_factor : roomy_chunk_factor;
  return {};
}

/// C: copies what the others are to reduce of this chunk; nothing where the buffer is lent.
void ExchangeEnd::contribute(const Job &job, uint64_t chunk) {
  const Range all = job.chunk_range(chunk);
  if (!lends_send_) {
    std::byte *const to = view_.contribution(rank_, chunks_ + chunk);
    const std::byte *const from = job.buffers.send.data + all.begin * job.element_bytes;
    const Range own = job.part(all, rank_, rank_count());
    const uint64_t before = (own.begin - all.begin) * job.element_bytes;
    const uint64_t after = before + own.count * job.element_bytes;
    std::memcpy(to, from, before);
    std::memcpy(to + after, from + after, all.count * job.element_bytes - after);
  }
  publish(view_.place(rank_).contributed.value, chunks_ + chunk + 1);  // C2
}

/// R: folds this rank's part of the chunk.
RunOutcome ExchangeEnd::reduce(const Job &job, uint64_t chunk) {
  const Range all = job.chunk_range(chunk);
  const Range own = job.part(all, rank_, rank_count());
  const uint64_t in_chunk = (own.begin - all.begin) * job.element_bytes;
  const uint64_t in_buffer = own.begin * job.element_bytes;
  std::array<const std::byte *, exchange_rank_count_max> operands;
  for (uint32_t offset = 0; offset < rank_count(); ++offset) {
    const uint32_t rank = (rank_ + offset) % rank_count();
    if (rank == rank_) {
      operands[rank] = job.buffers.send.data + in_buffer;
      continue;
    }
    const uint64_t &contributed = view_.place(rank).contributed.value;
    // Where nothing is copied on either side the announcement was enough.
    if (operands_[rank] == nullptr || !lends_recv_)
      if (!wait_until(job.waiter, [&] { return memory::load_sync(contributed) > chunks_ + chunk; }))  // R1
        return stopped;
    operands[rank] = operands_[rank] != nullptr ? operands_[rank] + in_buffer
                                                : view_.contribution(rank, chunks_ + chunk) + in_chunk;
  }
  if (own.count != 0) {
    std::byte *const recv = job.buffers.recv.data + in_buffer;
    std::byte *const outputs[] = {view_.result(rank_, chunks_ + chunk), recv};  // of which some are written, see below
    const bool streams = job.streams() && !lends_recv_;
    const std::span<std::byte *const> all_outputs(outputs);
    fold_in_order(job.reducer, std::span(operands.data(), rank_count()),
                  lends_recv_ ? all_outputs.last(1) : streams ? all_outputs.first(1) : all_outputs, own.count,
                  job.element_bytes, job.single_steps);
    if (streams) stream_copy(recv, outputs[0], own.count * job.element_bytes);
  }
  publish(view_.place(rank_).reduced.value, chunks_ + chunk + 1);  // R2
  return {};
}

/// G: fetches what the others have reduced of the chunk.
RunOutcome ExchangeEnd::gather(const Job &job, uint64_t chunk) {
  const Range all = job.chunk_range(chunk);
  for (uint32_t offset = 1; offset < rank_count(); ++offset) {
    const uint32_t rank = (rank_ + offset) % rank_count();
    const Range part = job.part(all, rank, rank_count());
    const uint64_t &reduced = view_.place(rank).reduced.value;
    if (!wait_until(job.waiter, [&] { return memory::load_sync(reduced) > chunks_ + chunk; })) return stopped;  // G1
    if (part.count == 0) continue;
    const uint64_t in_buffer = part.begin * job.element_bytes;
    const std::byte *const from =
        results_[rank] != nullptr ? results_[rank] + in_buffer : view_.result(rank, chunks_ + chunk);
    const auto copy = job.streams() ? stream_copy : copy_plainly;
    copy(job.buffers.recv.data + in_buffer, from, part.count * job.element_bytes);
  }
  return {};
}

}  // namespace rondo
