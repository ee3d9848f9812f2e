// SPDX-License-Identifier: Apache-2.0
// This file implements load_store through the places of all ranks. A channel's share of the vector is processed in
// chunks. Rank r reduces the r-th part of each chunk for all ranks, as in two_shot. Other collectives omit work that
// they do not need, but wait and publish in the same way. load_store_place.h describes the ordering.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/kernels/load_store_reduction.h"
#include "cuda/kernels/load_store_wait.h"
#include "src/proto/partition.h"

namespace rondo::device {

/// A channel's share of the vector, in chunks. Rank r reduces the r-th part of each chunk.
struct Share {
  Range all;
  uint64_t chunk_elements;
  uint32_t align_elements;
  uint32_t rank_count;
  uint32_t chunk_count;

  [[nodiscard]] RONDO_HD Range chunk(uint32_t index) const {
    return slice_of(all, index * chunk_elements, chunk_elements);
  }
  [[nodiscard]] RONDO_HD Range part(uint32_t index, uint32_t rank) const {
    return even_part<uint32_t>(chunk(index), rank, rank_count, align_elements);
  }
};

/// The size of a line of a device's cache, in bytes. 32 threads load 4 lines at once, or 5 if their data begins within
/// a line.
inline constexpr uint32_t device_line_bytes = 128;

/// Makes a share whose parts begin at whole lines. These are lines of the callers' buffers if ranks share them,
/// otherwise of places.
template <class Storage>
[[nodiscard]] RONDO_HD Share make_share(const LoadStoreOperation &operation, uint32_t channel, bool in_places) {
  const uint64_t chunk_elements = in_places ? operation.chunk_elements : operation.shared_chunk_elements;
  Partition partition;
  partition.channel = channel;
  partition.channel_count = operation.base.lane_count;
  const size_t line_bytes = in_places ? cache_line_bytes : device_line_bytes;
  partition.align_elements = static_cast<uint32_t>(line_bytes / sizeof(Storage));
  const Range all = partition.channel_part({0, operation.count});
  const auto chunks = static_cast<uint32_t>((all.count + chunk_elements - 1) / chunk_elements);
  return {all, chunk_elements, partition.align_elements, operation.rank_count(), chunks};
}

/// The buffers of a part, in shared memory of a block. Input i is in entry i, and so is output i.
struct PartBuffers {
  const std::byte *input;
  std::byte *output;
};

/// Says whether the collective has one block for each rank. If so, each part of a chunk belongs to one block.
[[nodiscard]] RONDO_HD constexpr bool has_blocks(LoadStoreCollective collective) {
  return collective == LoadStoreCollective::reduce_scatter || collective == LoadStoreCollective::all_gather;
}
/// Returns a rank's part of a chunk. If there are blocks, the range is within a block.
[[nodiscard]] RONDO_HD inline Range part_of(const LoadStoreOperation &operation, const Share &share, uint32_t index,
                                            uint32_t rank) {
  return has_blocks(operation.collective) ? share.chunk(index) : share.part(index, rank);
}

/// The work of this rank with the places. It is in shared memory of a block, because loops between its uses need all
/// registers. Each chunk has a part for each rank, and the rank computes the result of its part.
///     all_reduce, reduce, reduce_scatter   each rank contributes the parts of the others, and reduces its own part
///     broadcast                            the root contributes, and each rank passes its own part on
///     all_gather                           each rank passes on what it sends
struct PlaceRoute {
  uint64_t send_block, recv_block, area_block;  ///< elements from one rank's part to the next; 0 if parts are adjacent
  uint32_t chunks;                              ///< chunks before this operation
  bool contributes;
  bool has_result;  ///< peers need this rank's result
  bool has_recv;    ///< this rank needs results
  bool gathers;
};

[[nodiscard]] RONDO_HD inline PlaceRoute make_place_route(const LoadStoreOperation &operation, uint32_t chunks) {
  const bool is_root = operation.rank == operation.root;
  switch (operation.collective) {
    case LoadStoreCollective::reduce: return {0, 0, 0, chunks, true, !is_root, is_root, is_root};
    case LoadStoreCollective::reduce_scatter:
      return {operation.count, 0, operation.chunk_elements, chunks, true, false, true, false};
    case LoadStoreCollective::all_gather: return {0, operation.count, 0, chunks, false, true, true, true};
    case LoadStoreCollective::broadcast: return {0, 0, 0, chunks, is_root, true, true, !is_root};
    default: return {0, 0, 0, chunks, true, true, true, true};
  }
}

/// Some threads of a group, which copy without a barrier.
struct PartOfGroup {
  uint32_t thread;
  uint32_t thread_count;

  [[nodiscard]] RONDO_HD uint32_t rank() const { return thread; }
  [[nodiscard]] RONDO_HD uint32_t size() const { return thread_count; }
  RONDO_HD void sync() const {}                                       // never called
  [[nodiscard]] RONDO_HD bool any(bool vote) const { return vote; }  // never called
};

/// The work of one channel with the places.
template <class Reduction, Group G>
struct Places {
  using Storage = typename Reduction::Storage;
  static constexpr uint32_t element_bytes = sizeof(Storage);

  G group;
  const LoadStoreOperation &operation;
  const Share &share;
  const PlaceRoute &route;
  uint32_t channel;

  [[nodiscard]] RONDO_HD Range part(uint32_t index, uint32_t rank) const {
    return part_of(operation, share, index, rank);
  }
  [[nodiscard]] RONDO_HD const std::byte *send_at(uint64_t begin, uint32_t rank) const {
    return operation.base.buffers.send.data + (begin + rank * route.send_block) * element_bytes;
  }
  [[nodiscard]] RONDO_HD std::byte *recv_at(uint64_t begin, uint32_t rank) const {
    return operation.base.buffers.recv.data + (begin + rank * route.recv_block) * element_bytes;
  }
  [[nodiscard]] RONDO_HD std::byte *contribution_at(uint32_t of, uint32_t index, uint64_t begin, uint32_t rank) const {
    return operation.places[of] + operation.geometry.contribution_at(channel, route.chunks + index) +
           (begin - share.chunk(index).begin + rank * route.area_block) * element_bytes;
  }
  [[nodiscard]] RONDO_HD std::byte *result_of(uint32_t rank, uint32_t index) const {
    return operation.places[rank] + operation.geometry.result_at(channel, route.chunks + index);
  }

  /// Copies to `to`. A collective that only moves data also copies to `also`, unless that is null.
  RONDO_HD void copy(uint64_t count, const std::byte *from, std::byte *to, std::byte *also) const {
    if (count == 0) return;
    if constexpr (is_copy<Reduction>) {
      const auto operand = [&](uint32_t) { return from; };
      const auto output = [&](uint32_t which) { return which == 0 ? to : also; };
      const uint32_t outputs = also == nullptr ? 1 : 2;
      const RankOperands<decltype(operand), decltype(output)> operands{operand, output, 1, outputs, 0};
      const uint64_t origin = GroupArgs::address(from), difference = origin ^ GroupArgs::address(to);
      copy_part(group, operands, also == nullptr ? difference : difference | (origin ^ GroupArgs::address(also)),
                static_cast<uint32_t>(count));
    } else {
      GroupArgs args{};
      args.add_input(from);
      args.add_output(to);
      args.count = count;
      copy_by_group(group, args, element_bytes);
    }
  }

  /// Does C: contributes data from which the other ranks make results.
  RONDO_HD void contribute(uint32_t index) const {
    if (route.contributes) {
      const bool blocks = has_blocks(operation.collective);
      const uint32_t pieces = blocks ? operation.rank_count() : 2;  // two: before the own part, and after it
      RONDO_KEEP_LOOP
      for (uint32_t piece = 0; piece < pieces; ++piece) {
        const Range all = share.chunk(index), own = part(index, operation.rank);
        const uint64_t own_end = own.begin + own.count;
        const Range range = blocks       ? Range{all.begin, piece == operation.rank ? 0 : all.count}
                            : piece == 0 ? Range{all.begin, own.begin - all.begin}
                                         : Range{own_end, all.begin + all.count - own_end};
        const uint32_t rank = blocks ? piece : 0;
        copy(range.count, send_at(range.begin, rank), contribution_at(operation.rank, index, range.begin, rank),  // C1
             is_copy<Reduction> ? recv_at(range.begin, 0) : nullptr);  // the root's own output
      }
    }
    if constexpr (memory::is_kept(memory::Site::load_store_contribute_barrier)) group.sync();
    if (group.rank() == 0)
      memory::store_release<memory::Site::load_store_contribute>(  // C2, pairs with R1
          operation.place(operation.rank).contributed(channel),
          load_store_counter(route.chunks + index + 1, operation.base.buffers.signature));
  }

  /// Judges a peer's `contributed` for chunk `index`. Returns stop if the peer is in another operation.
  [[nodiscard]] RONDO_HD Look judge(uint64_t contributed, uint32_t index) const {
    if (!load_store_has_come(contributed, route.chunks + index + 1)) return Look::waits;
    return load_store_signature_in(contributed) == operation.base.buffers.signature ? Look::ready : Look::stop;
  }

  /// Begins R: stores in `buffers` where this rank's part of the chunk is, and waits until all ranks have contributed.
  /// Returns false to stop.
  [[nodiscard]] RONDO_HD bool begin_part(uint32_t index, PartBuffers *buffers) const {
    const Range own = part(index, operation.rank);
    const auto input_of = [&](uint32_t rank) -> const std::byte * {
      return rank == operation.rank ? send_at(own.begin, rank)
                                    : contribution_at(rank, index, own.begin, operation.rank);
    };
    if constexpr (is_copy<Reduction>) {
      const bool of_root = operation.collective == LoadStoreCollective::broadcast;
      if (group.rank() == 0) buffers[0].input = input_of(of_root ? operation.root : operation.rank);
    } else {
      RONDO_KEEP_LOOP
      for (uint32_t rank = group.rank(); rank < operation.rank_count(); rank += group.size())
        buffers[rank].input = input_of(rank);
    }
    if (group.rank() == 0) {
      if (route.has_result) buffers[0].output = result_of(operation.rank, index);
      if (route.has_recv) buffers[route.has_result ? 1 : 0].output = recv_at(own.begin, operation.rank);
    }
    uint32_t peer = group.rank();
    return repeat_until_ready(group, operation, [&] {
      return look_at_peers(group, operation, peer, [&](uint32_t of) {
        const uint64_t seen = memory::load_acquire(operation.place(of).contributed(channel));  // R1, see C2
        const Look look = judge(seen, index);
        return look == Look::stop ? tell_foreign(operation, of) : look;
      });
    }, [&](uint32_t of) { return memory::load_relaxed(operation.place(of).contributed(channel)); },  // see R1
       [&](uint64_t seen) { return judge(seen, index); });
  }

  RONDO_HD void end_part(uint32_t index) const {
    if constexpr (memory::is_kept(memory::Site::load_store_reduce_barrier)) group.sync();
    if (group.rank() == 0)
      memory::store_release<memory::Site::load_store_reduce>(  // R2, pairs with G1
          operation.place(operation.rank).reduced(channel), load_store_counter(route.chunks + index + 1, 0));
  }

  [[nodiscard]] RONDO_HD Look has_reduced(uint64_t reduced, uint32_t index) const {
    return load_store_has_come(reduced, route.chunks + index + 1) ? Look::ready : Look::waits;
  }

  /// Does G: gathers the other ranks' results of the chunk. Ranks that need no results wait for them, too, because the
  /// reuse of areas depends on that. Returns false to stop.
  [[nodiscard]] RONDO_HD bool gather(uint32_t index) const {
    uint32_t peer = group.rank();
    const bool come = repeat_until_ready(group, operation, [&] {
      return look_at_peers(group, operation, peer, [&](uint32_t of) {
        return has_reduced(memory::load_acquire(operation.place(of).reduced(channel)), index);  // G1, see R2
      });
    }, [&](uint32_t of) { return memory::load_relaxed(operation.place(of).reduced(channel)); },  // see G1
       [&](uint64_t seen) { return has_reduced(seen, index); });
    if (come && route.gathers) copy_results(index);
    return come;
  }

  /// Copies the other ranks' results of the chunk to recv. Each owner has its own threads, so the loads from all owners
  /// are in flight together. One after the other, each owner would cost a round trip over the link.
  RONDO_HD void copy_results(uint32_t index) const {
    const uint32_t peers = operation.rank_count() - 1, share_of_group = group.size() / peers;
    const uint32_t warps = share_of_group / 32 * 32;  // a part of a warp would load parts of lines
    const uint32_t each = warps != 0 ? warps : share_of_group;
    const PartOfGroup copiers = each == 0 ? PartOfGroup{group.rank(), group.size()}
                                          : PartOfGroup{group.rank() % each, each};
    const uint32_t first = each == 0 ? 0 : group.rank() / each, end = each == 0 ? peers : first + 1;
    RONDO_KEEP_LOOP
    for (uint32_t peer = first; peer < end && peer < peers; ++peer) {
      const uint32_t owner = (operation.rank + 1 + peer) % operation.rank_count();
      const Range of = part(index, owner);
      const std::byte *const from = result_of(owner, index);
      std::byte *const to = recv_at(of.begin, owner);
      const auto operand = [&](uint32_t) { return from; };
      const auto output = [&](uint32_t) { return to; };
      const RankOperands<decltype(operand), decltype(output)> operands{operand, output, 1, 1, 0};
      copy_part(copiers, operands, GroupArgs::address(from) ^ GroupArgs::address(to),
                static_cast<uint32_t>(of.count) * element_bytes);
    }
  }
};

}  // namespace rondo::device
