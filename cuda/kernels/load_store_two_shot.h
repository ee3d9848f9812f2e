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
  bool has_recv;  ///< this rank needs results
  bool gathers;
  uint32_t result_count;  ///< places into which this rank writes its result
  // These members say where the channel's data is in a place.
  ChunkAreas contributions, results;
  size_t column_bytes;          ///< of an area
  size_t contributed, reduced;  ///< offsets for LoadStorePlace::counter()
};

[[nodiscard]] RONDO_HD inline PlaceRoute make_place_route(const LoadStoreOperation &operation, uint32_t channel) {
  const LoadStoreGeometry &geometry = operation.geometry;
  const bool is_root = operation.rank == operation.root, pushes = geometry.pushes != 0;
  PlaceRoute route{};
  route.contributions = geometry.contributions(channel);
  route.results = geometry.results(channel);
  route.column_bytes = geometry.result_bytes();
  route.contributed = geometry.contributed_at(channel);
  route.reduced = geometry.reduced_at(channel);
  // No other rank writes that counter.
  route.chunks = load_store_count_in(
      memory::load_relaxed(operation.place(operation.rank).counter(route.contributed, operation.rank)));
  route.contributes = route.has_recv = route.gathers = true;
  route.result_count = pushes ? operation.rank_count() - 1 : 1;
  switch (operation.collective) {
    case LoadStoreCollective::reduce:
      route.has_recv = route.gathers = is_root;
      route.result_count = is_root ? 0 : 1;
      break;
    case LoadStoreCollective::reduce_scatter:
      route.send_block = operation.count;
      route.area_block = operation.chunk_elements;
      route.gathers = false;
      route.result_count = 0;
      break;
    case LoadStoreCollective::all_gather:
      route.recv_block = operation.count;
      route.contributes = false;
      break;
    case LoadStoreCollective::broadcast:
      route.contributes = is_root;
      route.gathers = !is_root;
      if (pushes && !is_root) --route.result_count;  // the root needs no results
      break;
    default: break;
  }
  return route;
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

/// Some threads of a group, and the pieces that they copy one after the other.
struct Copiers {
  PartOfGroup threads;
  uint32_t first_piece, piece_end;
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

  [[nodiscard]] RONDO_HD Range part(uint32_t index, uint32_t rank) const {
    return part_of(operation, share, index, rank);
  }
  [[nodiscard]] RONDO_HD const std::byte *send_at(uint64_t begin, uint32_t rank) const {
    return operation.base.buffers.send.data + (begin + rank * route.send_block) * element_bytes;
  }
  [[nodiscard]] RONDO_HD std::byte *recv_at(uint64_t begin, uint32_t rank) const {
    return operation.base.buffers.recv.data + (begin + rank * route.recv_block) * element_bytes;
  }
  [[nodiscard]] RONDO_HD bool pushes() const { return operation.geometry.pushes != 0; }
  [[nodiscard]] RONDO_HD uint32_t peer_at(uint32_t step) const {
    return (operation.rank + step) % operation.rank_count();
  }
  /// Returns the column of rank `by` in an area of the place in which `reader` finds it. If ranks push, a rank has no
  /// column in its own place.
  [[nodiscard]] RONDO_HD std::byte *column_at(uint32_t by, uint32_t reader, const ChunkAreas &areas,
                                              uint32_t index) const {
    const uint32_t column = pushes() ? (by < reader ? by : by - 1) : 0;
    return operation.place(by, reader).base + areas.at(route.chunks + index) + column * route.column_bytes;
  }
  /// Returns where rank `by` contributes the elements from `begin` on, in the part that rank `reader` reduces.
  [[nodiscard]] RONDO_HD std::byte *contribution_at(uint32_t by, uint32_t reader, uint32_t index,
                                                    uint64_t begin) const {
    const uint64_t before = pushes() ? 0 : begin - share.chunk(index).begin + reader * route.area_block;
    return column_at(by, reader, route.contributions, index) + before * element_bytes;
  }
  [[nodiscard]] RONDO_HD std::byte *result_at(uint32_t by, uint32_t reader, uint32_t index) const {
    return column_at(by, reader, route.results, index);
  }
  /// Returns a rank for which this rank stores its result, if ranks push. `which` is less than route.result_count.
  [[nodiscard]] RONDO_HD uint32_t reader_at(uint32_t which) const {
    if (operation.collective == LoadStoreCollective::reduce) return operation.root;
    const uint32_t step = which + 1, ranks = operation.rank_count();
    const uint32_t to_root = (operation.root + ranks - operation.rank) % ranks;  // 0 if this rank is the root
    const bool skips = operation.collective == LoadStoreCollective::broadcast && to_root != 0 && step >= to_root;
    return peer_at(skips ? step + 1 : step);
  }

  /// Gives each peer its own threads, so that the accesses for all peers are in flight together. One after the other,
  /// each peer would cost a turn.
  [[nodiscard]] RONDO_HD Copiers copiers_for_peers() const {
    const uint32_t peers = operation.rank_count() - 1, share_of_group = group.size() / peers;
    const uint32_t warps = share_of_group / 32 * 32;  // a part of a warp would access parts of lines
    const uint32_t each = warps != 0 ? warps : share_of_group;
    if (each == 0) return {{group.rank(), group.size()}, 0, peers};
    const uint32_t first = group.rank() / each;
    return {{group.rank() % each, each}, first, first < peers ? first + 1 : first};
  }

  /// Copies elements to `to`, and to `also` unless that is null.
  RONDO_HD void copy(const PartOfGroup &threads, uint64_t count, const std::byte *from, std::byte *to,
                     std::byte *also) const {
    const auto operand = [&](uint32_t) { return from; };
    const auto output = [&](uint32_t which) { return which == 0 ? to : also; };
    const RankOperands<decltype(operand), decltype(output)> operands{operand, output, 1, also == nullptr ? 1u : 2u, 0};
    const uint64_t origin = GroupArgs::address(from), difference = origin ^ GroupArgs::address(to);
    copy_part(threads, operands, also == nullptr ? difference : difference | (origin ^ GroupArgs::address(also)),
              static_cast<uint32_t>(count) * element_bytes);
  }

  /// Stores the channel's counter at offset `at` for all ranks. If ranks push, each rank's copy has its own thread.
  template <memory::Site site>
  RONDO_HD void publish(size_t at, uint64_t value) const {
    RONDO_KEEP_LOOP
    for (uint32_t reader = group.rank(); reader < (pushes() ? operation.rank_count() : 1); reader += group.size())
      memory::store_release<site>(operation.place(operation.rank, reader).counter(at, operation.rank),  // see R1, G1
                                  value);
  }

  /// Does C: contributes data from which the other ranks make results.
  RONDO_HD void contribute(uint32_t index) const {
    if (route.contributes) {
      const bool blocks = has_blocks(operation.collective);
      const uint32_t pieces = blocks ? operation.rank_count() : 2;  // two: before the own part, and after it
      const Copiers copiers = pushes() ? copiers_for_peers() : Copiers{{group.rank(), group.size()}, 0, pieces};
      RONDO_KEEP_LOOP
      for (uint32_t piece = copiers.first_piece; piece < copiers.piece_end; ++piece) {
        const Range all = share.chunk(index), own = part(index, operation.rank);
        const uint64_t own_end = own.begin + own.count;
        const uint32_t reader = pushes() ? peer_at(piece + 1) : blocks ? piece : 0;
        const Range range = pushes()     ? part(index, reader)
                            : blocks     ? Range{all.begin, piece == operation.rank ? 0 : all.count}
                            : piece == 0 ? Range{all.begin, own.begin - all.begin}
                                         : Range{own_end, all.begin + all.count - own_end};
        copy(copiers.threads, range.count, send_at(range.begin, reader),
             contribution_at(operation.rank, reader, index, range.begin),   // C1
             is_copy<Reduction> ? recv_at(range.begin, 0) : nullptr);       // the root's own output
      }
    }
    if constexpr (memory::is_kept(memory::Site::load_store_contribute_barrier)) group.sync();
    publish<memory::Site::load_store_contribute>(  // C2, pairs with R1
        route.contributed, load_store_counter(route.chunks + index + 1, operation.base.buffers.signature));
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
                                    : contribution_at(rank, operation.rank, index, own.begin);
    };
    if constexpr (is_copy<Reduction>) {
      const bool of_root = operation.collective == LoadStoreCollective::broadcast;
      if (group.rank() == 0) buffers[0].input = input_of(of_root ? operation.root : operation.rank);
    } else {
      RONDO_KEEP_LOOP
      for (uint32_t rank = group.rank(); rank < operation.rank_count(); rank += group.size())
        buffers[rank].input = input_of(rank);
    }
    RONDO_KEEP_LOOP
    for (uint32_t which = group.rank(); which < route.result_count; which += group.size())
      buffers[which].output = result_at(operation.rank, reader_at(which), index);
    if (group.rank() == 0 && route.has_recv)
      buffers[route.result_count].output = recv_at(own.begin, operation.rank);
    const auto contributed = [&](uint32_t of) -> uint64_t & {
      return operation.place(of, operation.rank).counter(route.contributed, of);
    };
    uint32_t peer = group.rank();
    return repeat_until_ready(group, operation, [&] {
      return look_at_peers(group, operation, peer, [&](uint32_t of) {
        const Look look = judge(memory::load_acquire(contributed(of)), index);  // R1, see C2
        return look == Look::stop ? tell_foreign(operation, of) : look;
      });
    }, [&](uint32_t of) { return memory::load_relaxed(contributed(of)); },  // see R1
       [&](uint64_t seen) { return judge(seen, index); });
  }

  RONDO_HD void end_part(uint32_t index) const {
    if constexpr (memory::is_kept(memory::Site::load_store_reduce_barrier)) group.sync();
    publish<memory::Site::load_store_reduce>(route.reduced,  // R2, pairs with G1
                                             load_store_counter(route.chunks + index + 1, 0));
  }

  [[nodiscard]] RONDO_HD Look has_reduced(uint64_t reduced, uint32_t index) const {
    return load_store_has_come(reduced, route.chunks + index + 1) ? Look::ready : Look::waits;
  }

  /// Does G: gathers the other ranks' results of the chunk. Ranks that need no results wait for them, too, because the
  /// reuse of areas depends on that. Returns false to stop.
  [[nodiscard]] RONDO_HD bool gather(uint32_t index) const {
    const auto reduced = [&](uint32_t of) -> uint64_t & {
      return operation.place(of, operation.rank).counter(route.reduced, of);
    };
    uint32_t peer = group.rank();
    const bool come = repeat_until_ready(group, operation, [&] {
      return look_at_peers(group, operation, peer, [&](uint32_t of) {
        return has_reduced(memory::load_acquire(reduced(of)), index);  // G1, see R2
      });
    }, [&](uint32_t of) { return memory::load_relaxed(reduced(of)); },  // see G1
       [&](uint64_t seen) { return has_reduced(seen, index); });
    if (come && route.gathers) copy_results(index);
    return come;
  }

  /// Copies the other ranks' results of the chunk to recv.
  RONDO_HD void copy_results(uint32_t index) const {
    const Copiers copiers = copiers_for_peers();
    RONDO_KEEP_LOOP
    for (uint32_t piece = copiers.first_piece; piece < copiers.piece_end; ++piece) {
      const uint32_t owner = peer_at(piece + 1);
      const Range of = part(index, owner);
      copy(copiers.threads, of.count, result_at(owner, operation.rank, index), recv_at(of.begin, owner), nullptr);
    }
  }
};

}  // namespace rondo::device
