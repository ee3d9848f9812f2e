// SPDX-License-Identifier: Apache-2.0
// This file implements load_store for ranks that read and write each other's buffers. Each input is read once and each
// output is written once, without copies in between.
//     all_reduce, reduce, broadcast   rank r handles the r-th part of each channel's share, for all ranks or the root
//     reduce_scatter                  rank r reduces block r of all ranks
//     all_gather                      rank r stores its block with all ranks
// If one rank cannot read another's buffers, all ranks use their places (load_store_two_shot.h). The order of accesses
// is in load_store_place.h, which also says why no rank touches a buffer after its owner's kernel has ended.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/kernels/load_store_reduction.h"
#include "cuda/kernels/load_store_two_shot.h"
#include "cuda/kernels/load_store_wait.h"

namespace rondo::device {

/// The ranks from whose buffers a part is read, and the ranks into whose buffers it is written. The last two members
/// are the offsets, in bytes, of the block in these buffers.
struct SharedRoute {
  uint32_t first_input, input_count;
  uint32_t first_output, output_count;
  uint64_t input_block, output_block;
};

/// Returns the route of rank `own` among `all` ranks.
[[nodiscard]] RONDO_HD inline SharedRoute make_route(LoadStoreCollective collective, uint32_t all, uint32_t own,
                                                     uint32_t root, uint64_t block_bytes) {
  switch (collective) {
    case LoadStoreCollective::reduce: return {0, all, root, 1, 0, 0};
    case LoadStoreCollective::reduce_scatter: return {0, all, own, 1, own * block_bytes, 0};
    case LoadStoreCollective::all_gather: return {own, 1, 0, all, 0, own * block_bytes};
    case LoadStoreCollective::broadcast: return {root, 1, 0, all, 0, 0};
    default: return {0, all, 0, all, 0, 0};
  }
}

enum class Gate : uint8_t {
  waits,
  open,
  closed,  ///< not all have arrived, and no rank waits for the others any more
  failed   ///< all have arrived, at least one of them without doing its part
};

/// Returns the state of a gate. Thread 0 calls it. `target` is the count of `word` when all have arrived.
[[nodiscard]] RONDO_HD inline Gate look_at_gate(uint64_t word, uint64_t target) {
  if (word % gate_failed >= target) return word < gate_failed ? Gate::open : Gate::failed;
  return word >= gate_closed ? Gate::closed : Gate::waits;
}

/// Takes this rank's arrival back, unless all have arrived meanwhile. Thread 0 of a rank that gives up calls it.
[[nodiscard]] RONDO_HD inline Gate close_gate(uint64_t &gate, uint64_t target) {
  for (;;) {  // each arrival or leave of another rank makes at most one exchange fail
    const uint64_t word = memory::load_acquire(gate);  // B2
    const Gate seen = look_at_gate(word, target);
    if (seen != Gate::waits) return seen;
    if (memory::exchange_if(gate, word, word - 1 + gate_closed)) return Gate::closed;
  }
}

/// Passes the gate `word` of rank 0's place. All threads get the same result: false if the gate failed or was closed.
/// With `gives_up`, thread 0 gives up after a failure, otherwise only if a peer is lost. If `has_part` is false, the
/// rank arrives only so that others do not wait, and all ranks get false. Arguments matter in thread 0 only.
template <memory::Site arrival, Group G>
[[nodiscard]] RONDO_HD bool pass_gate(G group, const LoadStoreOperation &operation, uint64_t &word, bool gives_up,
                                      bool has_part) {
  uint64_t target = 0;
  if (group.rank() == 0) {
    const bool on_one_device = operation.base.on_one_device != 0;
    const uint64_t own = has_part ? 1 : 1 + gate_failed;
    const uint64_t before = memory::add_among<arrival>(word, own, on_one_device) % gate_failed;  // B1, B4; see B2, B5
    target = (before / operation.rank_count() + 1) * operation.rank_count();
  }
  bool told = false;
  for (;;) {  // ends when all arrive, or at the deadline, when the host sets the abort word; see load_store_place.h
    Gate seen = Gate::open;
    if (group.rank() == 0)
      (void)poll(operation.base.poll_count, [&] {
        seen = look_at_gate(memory::load_acquire(word), target);  // B2, B5, pairs with B1, B4
        return seen != Gate::waits;
      });
    if (!any_at<memory::Site::load_store_ready_vote>(group, seen != Gate::open)) return true;
    if (group.rank() == 0 && seen == Gate::waits) {
      tell_waiting(operation.base, told);
      const DeviceOperation &base = operation.base;
      const auto stops = [&] { return gives_up ? seems_stopped(base, told) : peers_are_lost(base); };
      const auto has_come = [&] { return look_at_gate(memory::load_relaxed(word), target) != Gate::waits; };  // see B2
      if (!watch(group, base, stops, has_come)) seen = gives_up ? close_gate(word, target) : Gate::closed;
    }
    if (group.any(seen == Gate::closed || seen == Gate::failed)) return false;
  }
}

/// The continuation of the operation after the first gate.
enum class Agreement : uint8_t {
  stop,
  nothing,     ///< reads and writes nothing, but waits at the second gate, because others may use its buffers
  in_buffers,  ///< all ranks read and write each other's buffers
  in_places    ///< a buffer cannot be reached, so all ranks use their places
};

/// Does B1 and B2, and sets `buffers` for all threads. All ranks get the same result, with one exception: a rank that
/// finds a region withdrawn returns `nothing`, while others return in_buffers.
template <Group G>
[[nodiscard]] RONDO_HD Agreement agree(G group, const LoadStoreOperation &operation, uint32_t channel,
                                       const SharedRoute &route, PartBuffers *buffers) {
  const uint32_t signature = operation.base.buffers.signature;
  if (group.rank() == 0) {
    LoadStoreWindow &window = operation.place(operation.rank).window(channel);
    memory::store_relaxed(window.send, operation.posted_send);  // B1 orders them
    memory::store_relaxed(window.recv, operation.posted_recv);
    memory::store_relaxed(window.signature, load_store_window(signature, operation.can_be_read != 0));
  }
  uint64_t &arrived = operation.place(0).arrived(channel);
  if (!pass_gate<memory::Site::load_store_arrive>(group, operation, arrived, true, true)) return Agreement::stop;
  bool foreign = false, in_places = false, any_withdrawn = false;
  RONDO_KEEP_LOOP
  for (uint32_t rank = group.rank(); rank < operation.rank_count(); rank += group.size()) {
    const LoadStoreWindow &window = operation.place(rank).window(channel);
    const uint64_t seen = memory::load_relaxed(window.signature);  // ordered by B2
    foreign |= static_cast<uint32_t>(seen) != signature;
    in_places |= !load_store_can_be_read(seen);
    const uint64_t send = operation.address_of(rank, memory::load_relaxed(window.send));
    const uint64_t recv = operation.address_of(rank, memory::load_relaxed(window.recv));
    // The region was withdrawn, but a graph that was captured with it was launched.
    const bool withdrawn = operation.regions != nullptr && load_store_can_be_read(seen) && (send == 0 || recv == 0);
    const uint32_t input = rank - route.first_input, output = rank - route.first_output;  // ranks before the first wrap
    const bool own = rank == operation.rank;  // peers need not see buffers that they do not touch
    const Buffers &of_own = operation.base.buffers;
    if (input < route.input_count)
      buffers[input].input = reinterpret_cast<const std::byte *>(
          (own ? GroupArgs::address(of_own.send.data) : send) + route.input_block);
    if (output < route.output_count)
      buffers[output].output =
          reinterpret_cast<std::byte *>((own ? GroupArgs::address(of_own.recv.data) : recv) + route.output_block);
    if (foreign) (void)tell_foreign(operation, rank);
    if (withdrawn) (void)tell_foreign(operation, rank, Fault::withdrawn);
    any_withdrawn |= withdrawn;
  }
  // If one rank has another operation, each rank sees an operation that differs from its own, so all ranks stop.
  // Withdrawn regions differ: ranks clear the entry one after the other, and a rank that has not cleared it yet
  // continues. It may use the memory, whose owner waits for it to close the memory, and this rank's buffers.
  if (group.any(foreign || any_withdrawn))
    return group.any(foreign || in_places) ? Agreement::stop : Agreement::nothing;
  return group.any(in_places) ? Agreement::in_places : Agreement::in_buffers;
}

/// Does B4 and B5. Only thread 0 reads `agreed`.
template <Group G>
[[nodiscard]] RONDO_HD bool leave(G group, const LoadStoreOperation &operation, uint32_t channel,
                                  const Agreement &agreed) {
  if constexpr (memory::is_kept(memory::Site::load_store_leave_barrier)) group.sync();
  const Agreement known = group.rank() == 0 ? agreed : Agreement::stop;
  const bool gives_up = known == Agreement::in_places;  // then a peer may never leave
  return pass_gate<memory::Site::load_store_leave>(group, operation, operation.place(0).left(channel), gives_up,
                                                   known != Agreement::nothing);
}

}  // namespace rondo::device
