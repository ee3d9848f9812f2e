// SPDX-License-Identifier: Apache-2.0
// This file runs two_shot by load_store: a rank reads the part that it reduces from the places where the other ranks
// wrote it. It also runs a ring if all ranks export both buffers, as only the order of reduction differs then.
#include "src/engine/load_store_call.h"

namespace rondo {
RunOutcome LoadStoreCall::run_two_shot() {
  if (const RunOutcome settled = settle_ring(); !done(settled)) return settled;
  announce();
  contribute(0);
  for (uint64_t step = 1; step < chunks_.count() + 2; ++step) {
    if (waiter_.stopped()) return stopped;  // a rank that never waits notices a failure only here
    if (step == 1 && exports_send_ && exports_recv_) {  // before the next chunk, because its size may change here
      if (const RunOutcome met = wait_for_announcements(); !done(met)) return met;
      if (all_export_) chunks_.enlarge(load_store::Chunks::exported_factor(end_.wake_));
    }
    if (step < chunks_.count()) contribute(step);
    if (step == 1 && !(exports_send_ && exports_recv_)) {
      if (const RunOutcome met = wait_for_announcements(); !done(met)) return met;
    }
    if (step - 1 < chunks_.count()) {
      if (const RunOutcome reduced = reduce(step - 1); !done(reduced)) return reduced;
    }
    if (step >= 2) {
      if (const RunOutcome gathered = gather(step - 2); !done(gathered)) return gathered;
    }
  }
  return finish_gathering();
}

/// Runs a ring in which all ranks export both buffers. Each rank reduces a contiguous range, as in a two_shot, because
/// that is faster in memory than the ring's own parts. Two ranks out of place use streaming stores for sums that exceed
/// the caches, as all ranks do for copies. In other cases, such stores of sums were not measured.
RunOutcome LoadStoreCall::run_exported_parts() {
  in_ring_order_ = true;
  uint64_t chunk_bytes = load_store::Chunks::exported_factor(end_.wake_) * end_.view_.geometry.chunk_bytes;
  if (rank_count() == 2 && all_apart_ && cheap_ && !end_.wake_) {
    sums_past_caches_ = true;
    chunk_bytes = 2 * end_.cache_bytes_;  // a few milliseconds; such sums bypass the caches anyway
  }
  chunks_.set_bytes(chunk_bytes, element_bytes_);
  for (uint64_t step = 0; step < chunks_.count() + 1; ++step) {
    if (waiter_.stopped()) return stopped;
    if (step < chunks_.count()) {
      if (const RunOutcome reduced = reduce(step); !done(reduced)) return reduced;
    }
    if (step >= 1) {
      if (const RunOutcome gathered = gather(step - 1); !done(gathered)) return gathered;
    }
  }
  return finish_gathering();
}

/// Runs a ring of two ranks out of place. Each rank reads both operands and keeps the sums for itself. This form moves
/// as many bytes as if each rank fetched half of the sums, and no cache line of recv moves between the ranks. Each rank
/// begins with the half with which its peer ends, so that they do not request the same lines at once. If the ranks
/// share a core, and so its caches, or if the arithmetic is slower than memory, this form is not used.
RunOutcome LoadStoreCall::run_exported_whole() {
  in_ring_order_ = true;
  chunks_.set_single();
  for (uint32_t offset = 0; offset < rank_count(); ++offset) reduce_range(0, chunks_.part(0, rank_after(offset)));
  return finish_gathering();
}

/// Waits until no peer can still read an exported buffer of this rank. If gather() ran, it has waited for the readers
/// of `send`. Otherwise both buffers are exported (run_exported_whole()), and the wait for `recv` covers both.
RunOutcome LoadStoreCall::finish_gathering() const {
  end_.chunks_ += chunks_.count();
  publish(own_place().gathered.value, end_.chunks_);  // G2
  if (!exports_recv_) return {};
  return wait_for_gathered(end_.chunks_);
}

/// Does step C: copies the parts of this chunk that other ranks reduce, from `send` to this rank's contribution. If
/// `send` is exported, it copies nothing.
void LoadStoreCall::contribute(uint64_t chunk) const {
  if (!exports_send_) {
    const Range all = chunks_.range(chunk), own = chunks_.part(chunk, end_.rank_);
    std::byte *const to = end_.view_.contribution(end_.rank_, end_.chunks_ + chunk);
    const std::byte *const from = buffers_.send.data + all.begin * element_bytes_;
    const uint64_t before = (own.begin - all.begin) * element_bytes_;
    const uint64_t after = before + own.count * element_bytes_;
    copy_operands(to, from, before);
    copy_operands(to + after, from + after, all.count * element_bytes_ - after);
  }
  publish(own_place().contributed.value, end_.chunks_ + chunk + 1);  // C2
}

/// Does step R: reduces this rank's part of the chunk.
RunOutcome LoadStoreCall::reduce(uint64_t chunk) {
  for (uint32_t offset = 1; offset < rank_count(); ++offset) {
    const uint32_t rank = rank_after(offset);
    // If the peer's operand and this rank's recv are both exported, the peer's announcement covers this data.
    if (operands_[rank] == nullptr || !exports_recv_)
      if (!wait_for(place(rank).contributed, end_.chunks_ + chunk + 1)) return stopped;  // R1
  }
  reduce_range(chunk, chunks_.part(chunk, end_.rank_));
  publish(own_place().reduced.value, end_.chunks_ + chunk + 1);  // R2
  return {};
}

/// Returns the operand of `rank`, beginning at `element` of the buffer.
const std::byte *LoadStoreCall::operand(uint64_t chunk, uint32_t rank, uint64_t element) const {
  if (rank == end_.rank_) return buffers_.send.data + element * element_bytes_;
  if (operands_[rank] != nullptr) return operands_[rank] + element * element_bytes_;
  return end_.view_.contribution(rank, end_.chunks_ + chunk) + (element - chunks_.range(chunk).begin) * element_bytes_;
}

/// Reduces `range` of the chunk into recv. If peers cannot read recv, also writes the sums to this rank's result area.
void LoadStoreCall::reduce_range(uint64_t chunk, Range range) const {
  if (range.count == 0) return;
  const uint64_t in_buffer = range.begin * element_bytes_;
  std::byte *const recv = buffers_.recv.data + in_buffer;
  std::byte *const result = end_.view_.result(end_.rank_, end_.chunks_ + chunk);
  const bool apart_from_caches = streams() && !exports_recv_;
  for_each_order(range, [&](Range piece, uint32_t first) {
    std::array<const std::byte *, exchange_rank_count_max> operands;
    for (uint32_t index = 0; index < rank_count(); ++index)
      operands[index] = operand(chunk, (first + index) % rank_count(), piece.begin);
    const uint64_t in_range = (piece.begin - range.begin) * element_bytes_;
    const std::byte *&own = operands[(end_.rank_ + rank_count() - first) % rank_count()];
    if (scaler_ != nullptr)  // to where the sum goes, which is in the cache then
      own = scaled((apart_from_caches ? result : recv) + in_range, own, piece.count * element_bytes_);
    std::byte *const outputs[] = {result + in_range, recv + in_range};  // of which some are written
    const std::span<std::byte *const> all_outputs(outputs);
    reduce(reducer_, std::span(operands).first(rank_count()),
           exports_recv_       ? all_outputs.last(1)
           : apart_from_caches ? all_outputs.first(1)
                               : all_outputs,
           piece.count, sums_past_caches_);
  });
  if (apart_from_caches) copy(recv, result, range.count * element_bytes_, true);
}

/// Does step G: copies the parts of the chunk that other ranks have reduced.
RunOutcome LoadStoreCall::gather(uint64_t chunk) const {
  for (uint32_t offset = 1; offset < rank_count(); ++offset) {
    const uint32_t rank = rank_after(offset);
    const Range range = chunks_.part(chunk, rank);
    if (!wait_for(place(rank).reduced, end_.chunks_ + chunk + 1)) return stopped;  // G1
    const uint64_t in_buffer = range.begin * element_bytes_;
    const std::byte *const from =
        results_[rank] != nullptr ? results_[rank] + in_buffer : end_.view_.result(rank, end_.chunks_ + chunk);
    copy(buffers_.recv.data + in_buffer, from, range.count * element_bytes_, streams());
  }
  return {};
}

}  // namespace rondo
