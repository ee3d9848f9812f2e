// SPDX-License-Identifier: Apache-2.0
// This file has the bodies of load_store's kernels, which are collectives without steps or links. load_store_one_shot.h
// has the all-reduce by one_shot. Ranks that share their buffers run any collective in these buffers
// (load_store_shared.h). Otherwise a collective uses the places of all ranks (load_store_two_shot.h).
// load_store_place.h describes the layout and the order of accesses. A block runs one channel, and all of its threads
// are one group. Like load_store on the host, kernels reduce in rank order and round small floats once
// (docs/numerics.md).
#pragma once

#include <cstdint>

#include "cuda/kernels/load_store_one_shot.h"
#include "cuda/kernels/load_store_shared.h"
#include "cuda/kernels/load_store_two_shot.h"

namespace rondo::device {

/// The shared memory of a block: what thread 0 needs at the end, and what the group needs to use places. PartBuffers
/// for each rank follow it.
struct LoadStoreMemory {
  KernelEnds ends;
  PlaceRoute route;
  Agreement agreed;  ///< for thread 0 only: this saves a register while parts are reduced
};

/// Returns the shared memory of a block in bytes: a LoadStoreMemory, and PartBuffers for each rank.
[[nodiscard]] RONDO_HD constexpr uint32_t load_store_shared_bytes(uint32_t rank_count) {
  return shared_bytes_for(1, 0) + static_cast<uint32_t>(sizeof(LoadStoreMemory) + rank_count * sizeof(PartBuffers));
}

/// Reduces or copies `count` elements that begin `at` bytes after the addresses in `buffers`. All threads call it.
template <class Reduction, Group G>
RONDO_HD void run_part(G group, const PartBuffers *buffers, uint32_t input_count, uint32_t output_count, size_t at,
                       uint32_t count, uint32_t divisor) {
  // A copy needs to know in which bits the addresses differ from the operand's address.
  const uint64_t origin = is_copy<Reduction> ? GroupArgs::address(buffers[0].input) : 0;
  uint64_t addresses = 0;
  RONDO_KEEP_LOOP
  for (uint32_t which = 0; which < input_count; ++which)
    addresses |= GroupArgs::address(buffers[which].input) ^ origin;
  RONDO_KEEP_LOOP
  for (uint32_t which = 0; which < output_count; ++which)
    addresses |= GroupArgs::address(buffers[which].output) ^ origin;
  const auto operand = [&](uint32_t which) { return buffers[which].input + at; };
  const auto output = [&](uint32_t which) { return buffers[which].output + at; };
  const RankOperands<decltype(operand), decltype(output)> operands{operand, output, input_count, output_count, divisor};
  if constexpr (is_copy<Reduction>)
    copy_part(group, operands, addresses, count);
  else
    reduce_part<Reduction>(group, operands, addresses, count);
}

/// Runs all parts of this rank. A result is stored `output_count` times. In shared buffers, `buffers` has the
/// addresses. In places, turn n contributes chunk n, computes the result of chunk n - 1, and gathers chunk n - 2.
/// Returns false to stop.
template <class Reduction, Group G>
[[nodiscard]] RONDO_HD bool run_parts(G group, const LoadStoreOperation &operation, uint32_t channel,
                                      const PlaceRoute &route, PartBuffers *buffers, uint32_t output_count,
                                      bool in_places) {
  using Storage = typename Reduction::Storage;
  const Share share = make_share<Storage>(operation, channel, in_places);
  const Places<Reduction, G> places{group, operation, share, route};
  const uint32_t count = share.chunk_count, turns = in_places && count != 0 ? count + 2 : count;
  RONDO_KEEP_LOOP
  for (uint32_t turn = 0; turn < turns; ++turn) {
    const uint32_t index = in_places ? turn - 1 : turn;
    const bool has_part = index < count;
    if (in_places && turn < count) places.contribute(turn);
    if (in_places && has_part && !places.begin_part(index, buffers)) return false;
    if (has_part) {
      const Range part = part_of(operation, share, index, operation.rank);
      run_part<Reduction>(group, buffers, is_copy<Reduction> ? 1 : operation.rank_count(), output_count,
                          in_places ? 0 : part.begin * sizeof(Storage), static_cast<uint32_t>(part.count),
                          operation.base.divisor);
    }
    if (in_places && has_part) places.end_part(index);
    if (in_places && turn >= 2 && !places.gather(turn - 2)) return false;
  }
  return true;
}

/// Runs all work of a block, except a one_shot. `shared` is its shared memory, load_store_shared_bytes().
template <class Reduction, Group G>
RONDO_HD void run_load_store(G group, const LoadStoreOperation &operation, uint32_t channel, std::byte *shared) {
  const bool may_share = operation.mode == LoadStoreMode::shared;
  auto &memory = *reinterpret_cast<LoadStoreMemory *>(&ends_in(shared));
  auto *const buffers = reinterpret_cast<PartBuffers *>(&memory + 1);
  bool done = may_begin(group, operation, channel, memory.ends);
  if (done) {
    const SharedRoute route = make_route(operation.collective, operation.rank_count(), operation.rank, operation.root,
                                         operation.count * sizeof(typename Reduction::Storage));
    uint32_t output_count = route.output_count;
    const Agreement agreed = may_share ? agree(group, operation, channel, route, buffers) : Agreement::in_places;
    const bool in_places = agreed == Agreement::in_places;
    if (group.rank() == 0) memory.agreed = agreed;
    if (in_places) {
      if (group.rank() == 0) memory.route = make_place_route(operation, channel);
      group.sync();
      output_count = memory.route.result_count + (memory.route.has_recv ? 1 : 0);
    }
    done = agreed != Agreement::stop;
    if (done && agreed != Agreement::nothing)
      done = run_parts<Reduction>(group, operation, channel, memory.route, buffers, output_count, in_places);
    if (may_share)
      done = done && leave(group, operation, channel, memory.agreed);
    else if constexpr (memory::is_kept(memory::Site::load_store_end_barrier))
      group.sync();  // all threads must be done before thread 0 reports
  }
  if (group.rank() == 0)
    report(operation.base, 1, done ? 0 : pack_verdict(Outcome::stopped, Fault::none, 0), 0,
           [&] { return memory.ends; });
}

}  // namespace rondo::device
