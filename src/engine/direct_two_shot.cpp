// SPDX-License-Identifier: Apache-2.0
// two_shot by the protocol direct: who reduces a part reads it where its owners wrote it. Also a ring where all export
// both buffers: nothing is left of it then but the order of its reductions.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "src/engine/direct_job.h"
#include "src/engine/reduction/rank_order.h"

namespace rondo {

using direct::done;
using direct::stopped;
using direct::wait_until;

RunOutcome ExchangeEnd::run_two_shot(Job &job) {
  if (const RunOutcome settled = settle_ring(job); !done(settled)) return settled;
  announce(job);
  contribute(job, 0);
  for (uint64_t step = 1; step < job.chunk_count() + 2; ++step) {
    if (job.waiter.stopped()) return stopped;  // who is never late never waits
    if (step == 1 && lends_send_ && lends_recv_) {  // before the next chunk, whose size it may change
      if (const RunOutcome met = meet(job); !done(met)) return met;
      if (job.all_lend) job.chunk_elements *= lent_chunk_factor();
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
  return finish_gathering(job);
}

/// Each rank reduces as many elements in a row as in a two_shot, which memory likes better than the ring's own parts.
/// Two ranks out of place write sums that outgrow the caches past them, as all do what they copy; elsewhere that was
/// not measured.
RunOutcome ExchangeEnd::run_lent_ring(Job &job) {
  job.order = std::exchange(job.ring, nullptr);
  uint64_t chunk_bytes = lent_chunk_factor() * view_.geometry.chunk_bytes;
  if (rank_count() == 2 && job.all_apart && job.cheap && !wake_) {
    if (!job.outgrows_caches()) return reduce_everything(job);
    job.sums_past_caches = true;
    chunk_bytes = 2 * cache_bytes_;  // a few milliseconds, and nobody could fetch from the caches what is not there
  }
  const uint64_t tile_elements = job.order->chunk_elements * rank_count();
  job.chunk_elements = std::max<uint64_t>(chunk_bytes / (tile_elements * job.element_bytes), 1) * tile_elements;
  for (uint64_t step = 0; step < job.chunk_count() + 1; ++step) {
    if (job.waiter.stopped()) return stopped;
    if (step < job.chunk_count()) {
      if (const RunOutcome reduced = reduce(job, step); !done(reduced)) return reduced;
    }
    if (step >= 1) {
      if (const RunOutcome gathered = gather(job, step - 1); !done(gathered)) return gathered;
    }
  }
  return finish_gathering(job);
}

/// Two ranks, out of place: each reads both operands and keeps the sums to itself. That moves as many bytes between
/// them as if each fetched half of the sums, and no line of recv has to be taken away from a peer that has read it.
/// Each begins with the half that the other ends with, so that they do not ask for the same lines at once. Not where
/// they share a core, and so its caches, nor where arithmetic takes longer than memory.
RunOutcome ExchangeEnd::reduce_everything(Job &job) {
  job.chunk_elements = job.count;
  for (uint32_t offset = 0; offset < rank_count(); ++offset)
    reduce(job, 0, job.part(0, (rank_ + offset) % rank_count()));
  return finish_gathering(job);
}

/// Nobody returns while another may still read what it has exported.
RunOutcome ExchangeEnd::finish_gathering(const Job &job) {
  chunks_ += job.chunk_count();
  publish(view_.place(rank_).gathered.value, chunks_);  // G2
  if (!lends_send_ && !lends_recv_) return {};
  return wait_for_gathered(job, chunks_);
}

/// C: copies what the others are to reduce of this chunk; nothing where the buffer is exported.
void ExchangeEnd::contribute(const Job &job, uint64_t chunk) {
  if (!lends_send_) {
    const Range all = job.chunk_range(chunk);
    std::byte *const to = view_.contribution(rank_, chunks_ + chunk);
    const std::byte *const from = job.buffers.send.data + all.begin * job.element_bytes;
    const Range own = job.part(chunk, rank_);
    const uint64_t before = (own.begin - all.begin) * job.element_bytes;
    const uint64_t after = before + own.count * job.element_bytes;
    std::memcpy(to, from, before);
    std::memcpy(to + after, from + after, all.count * job.element_bytes - after);
  }
  publish(view_.place(rank_).contributed.value, chunks_ + chunk + 1);  // C2
}

/// R: reduces this rank's part of the chunk.
RunOutcome ExchangeEnd::reduce(const Job &job, uint64_t chunk) {
  for (uint32_t offset = 1; offset < rank_count(); ++offset) {
    const uint32_t rank = (rank_ + offset) % rank_count();
    const uint64_t &contributed = view_.place(rank).contributed.value;
    // Where nothing is copied on either side the announcement was enough.
    if (operands_[rank] == nullptr || !lends_recv_)
      if (!wait_until(job.waiter, [&] { return memory::load_sync(contributed) > chunks_ + chunk; }))  // R1
        return stopped;
  }
  reduce(job, chunk, job.part(chunk, rank_));
  publish(view_.place(rank_).reduced.value, chunks_ + chunk + 1);  // R2
  return {};
}

/// What `rank` contributes, from `element` of the buffer on.
const std::byte *ExchangeEnd::operand(const Job &job, uint64_t chunk, uint32_t rank, uint64_t element) const {
  if (rank == rank_) return job.buffers.send.data + element * job.element_bytes;
  if (operands_[rank] != nullptr) return operands_[rank] + element * job.element_bytes;
  return view_.contribution(rank, chunks_ + chunk) + (element - job.chunk_range(chunk).begin) * job.element_bytes;
}

/// Reduces `range` of the chunk into recv and, where peers do not read that, into the result's area.
void ExchangeEnd::reduce(const Job &job, uint64_t chunk, Range range) {
  if (range.count == 0) return;
  const uint64_t in_buffer = range.begin * job.element_bytes;
  std::byte *const recv = job.buffers.recv.data + in_buffer, *const result = view_.result(rank_, chunks_ + chunk);
  const bool streams = job.streams() && !lends_recv_;
  job.for_each_order(range, [&](Range piece, uint32_t first) {
    std::array<const std::byte *, exchange_rank_count_max> operands;
    for (uint32_t index = 0; index < rank_count(); ++index)
      operands[index] = operand(job, chunk, (first + index) % rank_count(), piece.begin);
    const uint64_t in_range = (piece.begin - range.begin) * job.element_bytes;
    std::byte *const outputs[] = {result + in_range, recv + in_range};  // of which some are written
    const std::span<std::byte *const> all_outputs(outputs);
    reduce_in_rank_order(job.reducer, std::span(operands.data(), rank_count()),
                  lends_recv_ ? all_outputs.last(1)
                  : streams   ? all_outputs.first(1)
                              : all_outputs,
                  piece.count, job.element_bytes, job.single_steps, job.sums_past_caches);
  });
  if (streams) stream_copy(recv, result, range.count * job.element_bytes);
}

/// G: fetches what the others have reduced of the chunk.
RunOutcome ExchangeEnd::gather(const Job &job, uint64_t chunk) {
  for (uint32_t offset = 1; offset < rank_count(); ++offset) {
    const uint32_t rank = (rank_ + offset) % rank_count();
    const Range part = job.part(chunk, rank);
    const uint64_t &reduced = view_.place(rank).reduced.value;
    if (!wait_until(job.waiter, [&] { return memory::load_sync(reduced) > chunks_ + chunk; })) return stopped;  // G1
    if (part.count == 0) continue;
    const uint64_t in_buffer = part.begin * job.element_bytes;
    const std::byte *const from =
        results_[rank] != nullptr ? results_[rank] + in_buffer : view_.result(rank, chunks_ + chunk);
    job.copy_out(job.buffers.recv.data + in_buffer, from, part.count * job.element_bytes);
  }
  return {};
}

}  // namespace rondo
