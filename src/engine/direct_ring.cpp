// SPDX-License-Identifier: Apache-2.0
// ring by the protocol direct: each part of a tile is summed in one place that all ranks map, the accumulator, to which
// they add what they have in the order of the ring; then all copy the sums out. As many bytes as two_shot moves, but in
// a footprint of one tile instead of one for each rank: with more ranks than cores it stays in the cache that ranks of
// a core share. A rank does whatever can be done before it waits, so a turn of the scheduler carries it over many hops.
#include <array>
#include <cstring>

#include "src/engine/direct_job.h"
#include "src/engine/reduction/rank_order.h"

namespace rondo {

using direct::done;
using direct::stopped;
using direct::wait_until;

/// How far this rank has come, in this operation.
struct ExchangeEnd::RingState {
  uint64_t tile = 0;  ///< of the next hop
  uint32_t hop = 0;
  uint64_t gathered = 0;         ///< tiles
  uint64_t gathered_by_all = 0;  ///< as last seen: chunks of the communicator's life
};

RunOutcome ExchangeEnd::run_ring(Job &job) {
  announce(job);
  publish(view_.place(rank_).contributed.value, chunks_ + 1);  // only says that the announcement is there
  if (const RunOutcome met = meet(job); !done(met)) return met;
  if (job.all_lend) return run_lent_ring(job);
  RingState state;
  while (state.gathered < job.chunk_count()) {
    if (job.waiter.stopped()) return stopped;
    const auto advance = [&] {
      bool moved = false;
      while (reduce_hop(job, state)) moved = true;
      while (gather_tile(job, state)) moved = true;
      return moved;
    };
    if (!wait_until(job.waiter, advance)) return stopped;
  }
  chunks_ += job.chunk_count();
  ring_unsettled_ = true;
  return {};
}

/// Adds this rank's operand to the accumulator whose turn it is. False: it is not this rank's turn yet, or all is done.
bool ExchangeEnd::reduce_hop(const Job &job, RingState &state) {
  if (state.tile == job.chunk_count()) return false;
  const uint64_t chunk = chunks_ + state.tile;
  const uint32_t previous = (rank_ + rank_count() - 1) % rank_count();
  const uint64_t hops = chunk * rank_count() + state.hop;
  if (state.hop == 0 ? !may_begin(chunk, state)
                     : memory::load_sync(view_.place(previous).hops_done.value) < hops)  // A1
    return false;
  const uint32_t owner = (rank_ + 2 * rank_count() - 1 - state.hop) % rank_count();
  const bool last = state.hop + 1 == rank_count();
  const Range part = job.part(state.tile, owner);
  if (part.count != 0) {
    const uint64_t in_buffer = part.begin * job.element_bytes, bytes = part.count * job.element_bytes;
    const std::byte *const own = job.buffers.send.data + in_buffer;
    std::byte *const recv = job.buffers.recv.data + in_buffer;
    std::byte *const sum = view_.accumulator(owner, chunk);
    const std::array<const std::byte *, 2> operands{own, sum};
    const std::array<std::byte *, 2> outputs{sum, recv};
    const size_t output_count = last && !job.streams() ? 2 : 1;
    HostReducer reducer = job.reducer;
    if (!last) reducer.divisor = 0;
    if (state.hop == 0)
      std::memcpy(sum, own, bytes);
    else
      reduce_in_rank_order(reducer, operands, std::span(outputs).first(output_count), part.count, job.element_bytes,
                           true);
    if (last && job.streams()) stream_copy(recv, sum, bytes);
  }
  if (++state.hop == rank_count()) state.hop = 0, ++state.tile;
  publish(view_.place(rank_).hops_done.value, hops + 1);  // A2
  return true;
}

/// Whether everybody has read what was in the accumulators that tile `chunk` takes.
bool ExchangeEnd::may_begin(uint64_t chunk, RingState &state) const {
  if (chunk < exchange_accumulator_count) return true;
  const uint64_t needed = chunk - exchange_accumulator_count + 1;
  if (state.gathered_by_all >= needed) return true;
  uint64_t least = UINT64_MAX;
  for (uint32_t peer = 0; peer < rank_count(); ++peer)
    least = std::min(least, memory::load_sync(view_.place(peer).gathered.value));  // pairs with G2
  state.gathered_by_all = least;
  return least >= needed;
}

/// Copies the sums of the next tile out. False: they are not all there yet.
bool ExchangeEnd::gather_tile(const Job &job, RingState &state) {
  if (state.gathered == state.tile) return false;
  const uint64_t chunk = chunks_ + state.gathered;
  for (uint32_t peer = 0; peer < rank_count(); ++peer)
    if (memory::load_sync(view_.place(peer).hops_done.value) < (chunk + 1) * rank_count()) return false;  // A1
  for (uint32_t offset = 1; offset < rank_count(); ++offset) {
    const uint32_t owner = (rank_ + offset) % rank_count();
    const Range part = job.part(state.gathered, owner);
    if (part.count == 0) continue;
    job.copy_out(job.buffers.recv.data + part.begin * job.element_bytes, view_.accumulator(owner, chunk),
                 part.count * job.element_bytes);
  }
  ++state.gathered;
  publish(view_.place(rank_).gathered.value, chunk + 1);  // G2
  return true;
}

/// Before a two_shot writes its contributions where the accumulators of a ring were: everybody has read those.
RunOutcome ExchangeEnd::settle_ring(const Job &job) {
  if (!ring_unsettled_) return {};
  ring_unsettled_ = false;
  return wait_for_gathered(job, chunks_);
}

}  // namespace rondo
