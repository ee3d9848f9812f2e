// SPDX-License-Identifier: Apache-2.0
// This file runs a ring by load_store if some rank does not export its buffers. Each part of a tile has an accumulator,
// memory that all ranks map. Ranks add their operands to it in the order of the ring, and then all ranks copy the sums
// out. That moves as many bytes as two_shot, but needs memory for one tile instead of one tile for each rank. If
// several ranks share a core, the accumulators stay in the cache that these ranks share. A rank does everything that is
// possible before it waits, so one time slice of the scheduler lets it do many hops.
#include "src/engine/load_store_call.h"

namespace rondo {

/// Runs the ring. A tile of the schedule is a chunk of the exchange.
RunOutcome LoadStoreCall::run_accumulators() {
  RingProgress progress;
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
bool LoadStoreCall::reduce_hop(RingProgress &progress) const {
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
void LoadStoreCall::add_to_sum(std::span<const std::byte *const, 2> operands, std::span<std::byte *const> outputs,
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
bool LoadStoreCall::may_begin(uint64_t chunk, RingProgress &progress) const {
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
bool LoadStoreCall::gather_tile(RingProgress &progress) const {
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

/// Waits until all ranks have read the accumulators of a ring. A two_shot does this before it overwrites them.
RunOutcome LoadStoreCall::settle_ring() const {
  if (!end_.ring_unsettled_) return {};
  end_.ring_unsettled_ = false;
  return wait_for_gathered(end_.chunks_);
}

/// Waits until every rank has gathered `chunks` chunks since the communicator was made.
RunOutcome LoadStoreCall::wait_for_gathered(uint64_t chunks) const {
  for (uint32_t offset = 1; offset < rank_count(); ++offset)
    if (!wait_for(place(rank_after(offset)).gathered, chunks)) return stopped;  // see G2
  return {};
}

}  // namespace rondo
