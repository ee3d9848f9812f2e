// SPDX-License-Identifier: Apache-2.0
// This file runs a ring by load_store. If some rank does not export its buffers, each part of a tile has an
// accumulator: memory that all ranks map. In a hop, a rank adds its operand to one of these, in the order of the ring.
// Then all ranks copy the sums out. This moves as many bytes as two_shot, but needs memory for one tile instead of one
// tile for each rank. If ranks share a core, the accumulators stay in the cache that these ranks share. A rank does all
// hops that are possible before it waits, so it does many hops in one time slice of the scheduler.
#include "src/engine/load_store_call.h"

namespace rondo {
namespace {

bool is_large_float(rondo_type_t type) { return type == RONDO_FLOAT32 || type == RONDO_FLOAT64; }

/// Returns how a ring keeps partial sums. Its results must not depend on which buffers are exported, so it rounds as if
/// all sums went through memory. The scaled partial sums of a mean can be subnormal, so they round, too.
Partials partials_of_ring(rondo_type_t type, rondo_op_t op) {
  const bool rounds = is_small_float(type) || (op == RONDO_AVG && is_large_float(type));
  return rounds ? Partials::rounded : Partials::native;
}

/// Returns whether the reduction is as fast as memory. 8-bit floats and integer divisions are slower.
bool reduces_cheaply(rondo_type_t type, rondo_op_t op) {
  if (type == RONDO_FLOAT8_E4M3 || type == RONDO_FLOAT8_E5M2) return false;
  return op != RONDO_AVG || is_small_float(type) || is_large_float(type);
}

}  // namespace

RingCall::RingCall(const LoadStoreArgs &args)
    : TwoShotCall(args, partials_of_ring(args.type(), args.op()),
                  args.end.view_.geometry.rank_count == 2 && reduces_cheaply(args.type(), args.op())),
      cheap_(reduces_cheaply(args.type(), args.op())) {}

RunOutcome RingCall::run() {
  announce();
  publish(own_place().contributed.value, end_.chunks_ + 1);  // publishes only the announcement, no chunk
  if (const RunOutcome met = wait_for_announcements(); !done(met)) return met;
  switch (choose_form()) {
    case Form::exported_parts:
      return run_exported_parts();
    case Form::exported_whole:
      return run_exported_whole();
    case Form::accumulators:
      break;
  }
  return run_accumulators();
}

/// Chooses the form of a ring. All ranks have seen the same announcements, so all choose the same form.
RingCall::Form RingCall::choose_form() const {
  if (!all_export_) return Form::accumulators;
  const bool whole = rank_count() == 2 && all_apart_ && cheap_ && !end_.wake_ && !outgrows_caches();
  return whole ? Form::exported_whole : Form::exported_parts;
}

/// Runs a ring in which all ranks export both buffers. Each rank reduces a contiguous range, as in a two_shot, because
/// memory serves this faster than the ring's own parts. Two ranks out of place use streaming stores for sums that
/// exceed the caches, as all ranks do for copies. For other sums, streaming stores were not measured and are not used.
RunOutcome RingCall::run_exported_parts() {
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
      if (const RunOutcome reduced = reduce_part(step); !done(reduced)) return reduced;
    }
    if (step >= 1) {
      if (const RunOutcome gathered = gather(step - 1); !done(gathered)) return gathered;
    }
  }
  return finish_gathering();
}

/// Runs a ring of two ranks out of place. Each rank reads both operands and keeps the sums for itself. This form moves
/// as many bytes as if each rank fetched half of the sums, and no cache line of recv moves between the ranks. Each rank
/// begins with the half with which its peer ends, so that they do not request the same lines at once. This form is not
/// used if the ranks share a core and its caches, or if arithmetic is slower than memory.
RunOutcome RingCall::run_exported_whole() {
  in_ring_order_ = true;
  chunks_.set_single();
  for (uint32_t offset = 0; offset < rank_count(); ++offset) reduce_range(0, chunks_.part(0, rank_after(offset)));
  return finish_gathering();
}

/// Runs a ring over accumulators. A tile of the schedule is a chunk of the exchange.
RunOutcome RingCall::run_accumulators() {
  Progress progress;
  while (progress.gathered < tiles_.tile_count) {
    if (waiter_.stopped()) return stopped;
    const auto advance = [&] {
      bool moved = false;
      while (reduce_hop(progress)) moved = true;
      while (gather_tile(progress)) moved = true;
      return moved;
    };
    if (!wait_until(advance)) return stopped;
  }
  end_.chunks_ += tiles_.tile_count;
  end_.ring_unsettled_ = true;
  return {};
}

/// Adds this rank's operand to the next accumulator. Returns false if an earlier rank has not added yet, or all hops
/// are done.
bool RingCall::reduce_hop(Progress &progress) const {
  if (progress.tile == tiles_.tile_count) return false;
  const uint64_t chunk = end_.chunks_ + progress.tile;
  const uint64_t hops = chunk * rank_count() + progress.hop;
  const uint64_t &before = place(rank_after(rank_count() - 1)).hops_done.value;
  const bool first = progress.hop == 0, last = progress.hop + 1 == rank_count();
  if (first ? !may_begin(chunk, progress) : memory::load_sync(before) < hops) return false;  // H1
  if (!first) note_waited(before, hops);
  const uint32_t owner = rank_after(2 * rank_count() - 1 - progress.hop);
  const Range part = tiles_.range(progress.tile, owner);
  if (part.count != 0) {
    const uint64_t in_buffer = part.begin * element_bytes_, part_bytes = part.count * element_bytes_;
    const std::byte *own = buffers_.send.data + in_buffer;
    std::byte *const recv = buffers_.recv.data + in_buffer;
    std::byte *const sum = end_.view_.accumulator(owner, chunk);
    if (scaler_ != nullptr && !first) own = scaled(recv, own, part_bytes);
    const std::array<const std::byte *, 2> operands{own, sum};
    const std::array<std::byte *, 2> outputs{sum, recv};
    if (first)
      copy_operands(sum, own, part_bytes);
    else
      add_to_sum(operands, std::span(outputs).first(last && !streams() ? 2 : 1), part.count, progress.hop);
    if (last && streams()) copy(recv, sum, part_bytes, true);
  }
  if (++progress.hop == rank_count()) progress.hop = 0, ++progress.tile;
  publish(own_place().hops_done.value, hops + 1);  // H2
  return true;
}

/// Reduces `operands`: this rank's operand, and a sum over `summed` ranks.
void RingCall::add_to_sum(std::span<const std::byte *const, 2> operands, std::span<std::byte *const> outputs,
                               uint64_t count, uint32_t summed) const {
  if (end_.trace_ != nullptr) end_.trace_->reduced(operands, outputs, count * element_bytes_);
  ReductionArgs args;
  for (const std::byte *const operand : operands) args.add_input(operand);
  for (std::byte *const output : outputs) args.add_output(output);
  args.count = count;
  if (reducer_.divisor != 0) args.mean_shifts = mean_shifts(std::array{1u, summed});
  if (summed + 1 == rank_count()) args.divisor = reducer_.divisor;
  reduce_function(reducer_, count * element_bytes_)(args);
}

/// Returns whether all ranks have read the sums that tile `chunk` would overwrite.
bool RingCall::may_begin(uint64_t chunk, Progress &progress) const {
  if (chunk < exchange_accumulator_count) return true;
  const uint64_t needed = chunk - exchange_accumulator_count + 1;
  if (progress.gathered_by_all < needed) {
    uint64_t least = UINT64_MAX;
    for (uint32_t peer = 0; peer < rank_count(); ++peer)
      least = std::min(least, memory::load_sync(place(peer).gathered.value));  // pairs with G2
    progress.gathered_by_all = least;
    if (least < needed) return false;
  }
  for (uint32_t offset = 1; offset < rank_count() && end_.trace_ != nullptr; ++offset)
    note_waited(place(rank_after(offset)).gathered.value, needed);
  return true;
}

/// Copies the sums of the next tile to recv. Returns false if some of them are not complete.
bool RingCall::gather_tile(Progress &progress) const {
  if (progress.gathered == progress.tile) return false;
  const uint64_t chunk = end_.chunks_ + progress.gathered, hops = (chunk + 1) * rank_count();
  for (uint32_t peer = 0; peer < rank_count(); ++peer)
    if (memory::load_sync(place(peer).hops_done.value) < hops) return false;  // H1
  for (uint32_t offset = 1; offset < rank_count() && end_.trace_ != nullptr; ++offset)
    note_waited(place(rank_after(offset)).hops_done.value, hops);
  for (uint32_t offset = 1; offset < rank_count(); ++offset) {
    const uint32_t owner = rank_after(offset);
    const Range part = tiles_.range(progress.gathered, owner);
    copy(buffers_.recv.data + part.begin * element_bytes_, end_.view_.accumulator(owner, chunk),
         part.count * element_bytes_, streams());
  }
  ++progress.gathered;
  publish(own_place().gathered.value, chunk + 1);  // G2
  return true;
}

}  // namespace rondo
