// SPDX-License-Identifier: Apache-2.0
// two_shot by load_store: a channel's share of the vector is passed over in chunks, of each of which rank r
// reduces the r-th part for all. Ordering: load_store_place.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/kernels/load_store_reduction.h"
#include "cuda/kernels/load_store_wait.h"
#include "src/proto/partition.h"

namespace rondo::device {

/// A channel's share of the vector, in chunks, of each of which rank r reduces the r-th part.
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

/// Parts begin at multiples of `align_bytes`.
template <class Storage>
[[nodiscard]] RONDO_HD Share make_share(const LoadStoreOperation &operation, uint32_t channel, uint64_t chunk_elements,
                                        uint32_t align_bytes = cache_line_bytes) {
  Partition partition;
  partition.channel = channel;
  partition.channel_count = operation.base.lane_count;
  partition.align_elements = static_cast<uint32_t>(align_bytes / sizeof(Storage));
  const Range all = partition.channel_part({0, operation.count});
  const auto chunks = static_cast<uint32_t>((all.count + chunk_elements - 1) / chunk_elements);
  return {all, chunk_elements, partition.align_elements, operation.rank_count(), chunks};
}

/// One channel's two_shot. `chunks`: those before this operation.
template <class Reduction, Group G>
struct TwoShot {
  using Storage = typename Reduction::Storage;
  static constexpr uint32_t element_bytes = sizeof(Storage);

  G group;
  const LoadStoreOperation &operation;
  Share share;
  uint32_t channel;
  uint32_t chunks;

  /// Elements `range` from `from`, which is at `begin` of the vector, to `to`, likewise.
  RONDO_HD void copy(Range range, const std::byte *from, uint64_t from_begin, std::byte *to, uint64_t to_begin) const {
    if (range.count == 0) return;
    GroupArgs args{};
    args.add_input(from + (range.begin - from_begin) * element_bytes);
    args.add_output(to + (range.begin - to_begin) * element_bytes);
    args.count = range.count;
    copy_by_group(group, args, element_bytes);
  }

  /// C: what the others are to reduce of the chunk.
  RONDO_HD void contribute(uint32_t index) const {
    const Range all = share.chunk(index), own = share.part(index, operation.rank);
    const std::byte *const send = operation.base.buffers.send.data;
    std::byte *const area =
        operation.places[operation.rank] + operation.geometry.contribution_at(channel, chunks + index);
    copy({all.begin, own.begin - all.begin}, send, 0, area, all.begin);  // C1
    copy({own.begin + own.count, all.begin + all.count - own.begin - own.count}, send, 0, area, all.begin);
    if constexpr (memory::is_kept(memory::Site::load_store_contribute_barrier)) group.sync();
    if (group.rank() == 0)
      memory::store_release<memory::Site::load_store_contribute>(  // C2, pairs with R1
          operation.place(operation.rank).contributed(channel),
          load_store_counter(chunks + index + 1, operation.base.buffers.signature));
  }

  /// R: reduces this rank's part of the chunk. False: stop.
  [[nodiscard]] RONDO_HD bool reduce(uint32_t index) const {
    uint32_t peer = group.rank();
    const bool come = repeat_until_ready(group, operation, [&] {
      return look_at_peers(group, operation, peer, [&](uint32_t of) {
        const uint64_t seen = memory::load_acquire(operation.place(of).contributed(channel));  // R1, see C2
        if (!load_store_has_come(seen, chunks + index + 1)) return Look::waits;
        const bool same = load_store_signature_in(seen) == operation.base.buffers.signature;
        return same ? Look::ready : tell_foreign(operation, of);
      });
    });
    if (!come) return false;
    const Range own = share.part(index, operation.rank);
    const std::byte *const send = operation.base.buffers.send.data + own.begin * element_bytes;
    const size_t at = operation.geometry.contribution_at(channel, chunks + index) +
                      (own.begin - share.chunk(index).begin) * element_bytes;
    const auto operand = [&](uint32_t rank) -> const std::byte * {
      return rank == operation.rank ? send : operation.places[rank] + at;
    };
    std::byte *const result =
        operation.places[operation.rank] + operation.geometry.result_at(channel, chunks + index);
    std::byte *const recv = operation.base.buffers.recv.data + own.begin * element_bytes;
    const auto output = [&](uint32_t which) { return which == 0 ? result : recv; };
    const RankOperands<decltype(operand), decltype(output)> operands{operand, output, operation.rank_count(), 2,
                                                                     operation.base.divisor};
    reduce_part<Reduction>(group, operands, GroupArgs::address(send) | GroupArgs::address(recv),
                    static_cast<uint32_t>(own.count));
    if constexpr (memory::is_kept(memory::Site::load_store_reduce_barrier)) group.sync();
    if (group.rank() == 0)
      memory::store_release<memory::Site::load_store_reduce>(  // R2, pairs with G1
          operation.place(operation.rank).reduced(channel), load_store_counter(chunks + index + 1, 0));
    return true;
  }

  /// G: what the others have reduced of the chunk. False: stop.
  [[nodiscard]] RONDO_HD bool gather(uint32_t index) const {
    uint32_t peer = group.rank();
    const bool come = repeat_until_ready(group, operation, [&] {
      return look_at_peers(group, operation, peer, [&](uint32_t of) {
        const uint64_t seen = memory::load_acquire(operation.place(of).reduced(channel));  // G1, see R2
        return load_store_has_come(seen, chunks + index + 1) ? Look::ready : Look::waits;
      });
    });
    if (!come) return false;
    const size_t at = operation.geometry.result_at(channel, chunks + index);
    RONDO_KEEP_LOOP
    for (uint32_t offset = 1; offset < operation.rank_count(); ++offset) {
      const uint32_t owner = (operation.rank + offset) % operation.rank_count();
      const Range part = share.part(index, owner);
      copy(part, operation.places[owner] + at, part.begin, operation.base.buffers.recv.data, 0);
    }
    return true;
  }
};

template <class Reduction, Group G>
[[nodiscard]] RONDO_HD bool run_two_shot(G group, const LoadStoreOperation &operation, uint32_t channel) {
  // Nobody else writes it; the first vote comes before one thread moves it on.
  const uint32_t chunks =
      load_store_count_in(memory::load_relaxed(operation.place(operation.rank).contributed(channel)));
  const Share share = make_share<typename Reduction::Storage>(operation, channel, operation.chunk_elements);
  const TwoShot<Reduction, G> run{group, operation, share, channel, chunks};
  const uint32_t count = run.share.chunk_count;
  RONDO_KEEP_LOOP
  for (uint32_t step = 0; count != 0 && step < count + 2; ++step) {
    if (step < count) run.contribute(step);
    if (step >= 1 && step - 1 < count && !run.reduce(step - 1)) return false;
    if (step >= 2 && !run.gather(step - 2)) return false;
  }
  if constexpr (memory::is_kept(memory::Site::load_store_end_barrier)) group.sync();  // before thread 0 reports
  return true;
}

}  // namespace rondo::device
