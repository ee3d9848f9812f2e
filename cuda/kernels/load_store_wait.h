// SPDX-License-Identifier: Apache-2.0
// This file has the parameter of a load_store kernel, and the waits of its threads. Each thread polls up to poll_count
// times for what it needs itself, and then votes. So a group continues when all of its threads are ready. The whole
// group stops if any thread finds another operation, or if thread 0 finds an abort.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/kernels/load_store_place.h"
#include "cuda/kernels/run.h"

namespace rondo::device {

enum class LoadStoreMode : uint32_t {
  two_shot,
  one_shot,
  shared,  ///< in buffers of all ranks; through places as two_shot if one buffer cannot be read
};

/// The collectives of `two_shot` and `shared`. one_shot is only for all-reduce.
enum class LoadStoreCollective : uint32_t { all_reduce, reduce, reduce_scatter, all_gather, broadcast };

inline constexpr uint32_t word_bytes = 8;  ///< one_shot: the part of a payload that a thread posts at once

/// The addresses of a short post. A one_shot post is short if two, four or eight ranks post whole words, from buffers
/// aligned to words. The host computes the addresses, so that a kernel whose group has a thread for each word and each
/// rank can post at once.
struct ShortPost {
  uint64_t *units = nullptr;   ///< for even posts, in the rank's own place
  uint32_t units_of_area = 0;  ///< the distance to the units of odd posts
  uint32_t word_count = 0;     ///< words of all channels; 0 if the post is not short
};

/// The parameter of every kernel of load_store. The grid has one block per channel.
struct LoadStoreOperation {
  DeviceOperation base;                               ///< without channels and scratch; lane_count counts channels
  std::byte *places[load_store_rank_count_max] = {};  ///< address of each rank's place for this rank
  LoadStoreGeometry geometry;
  uint64_t count = 0;           ///< elements of the vector, or of a block
  uint64_t chunk_elements = 0;  ///< of a channel's chunk in two_shot, or of each block in it; a multiple of 64 bytes
  uint64_t shared_chunk_elements = 0;  ///< of a chunk in `shared`, any number; a multiple of a line keeps lines whole
  uint32_t rank = 0;
  LoadStoreMode mode = LoadStoreMode::two_shot;
  LoadStoreCollective collective = LoadStoreCollective::all_reduce;
  uint32_t root = 0;
  uint32_t can_be_read = 1;  ///< 0 if, in `shared`, kernels on other devices cannot read this rank's buffers
  uint32_t post_words = 0;   ///< words of a channel in one_shot; the last channels may have fewer
  ShortPost short_post;
  uint64_t posted_send = 0, posted_recv = 0;  ///< for `shared`: what the rank stores in its window
  const uint64_t *regions = nullptr;          ///< this rank's addresses of all regions; null if windows have addresses

  [[nodiscard]] RONDO_HD uint32_t rank_count() const { return geometry.rank_count; }
  /// Returns this rank's address for the address `posted` in a window of rank `of`. It is 0 if this rank has not opened
  /// that region.
  [[nodiscard]] RONDO_HD uint64_t address_of(uint32_t of, uint64_t posted) const {
    if (regions == nullptr) return posted;
    const uint64_t region = memory::load_relaxed(regions[of * region_count_max + (posted >> region_shift)]);
    return region == 0 ? 0 : region + (posted & ((uint64_t{1} << region_shift) - 1));
  }
  [[nodiscard]] RONDO_HD LoadStorePlace place(uint32_t of) const { return {places[of], geometry}; }
  /// Returns the place in which rank `reader` finds what rank `by` writes for it.
  [[nodiscard]] RONDO_HD LoadStorePlace place(uint32_t by, uint32_t reader) const {
    return place(geometry.pushes != 0 ? reader : by);
  }
  /// Returns where rank `reader` finds the units of post `number` of rank `by`.
  [[nodiscard]] RONDO_HD uint64_t *units(uint64_t number, uint32_t by, uint32_t reader) const {
    return place(by, reader).units(number, by);
  }
};
static_assert(std::is_trivially_copyable_v<LoadStoreOperation> && std::is_standard_layout_v<LoadStoreOperation>);
static_assert(sizeof(LoadStoreOperation) == 840 && offsetof(LoadStoreOperation, places) == 216);
static_assert(offsetof(LoadStoreOperation, geometry) == 728 && offsetof(LoadStoreOperation, rank) == 776);

enum class Look : uint8_t { ready, waits, stop };

/// Records that this thread found `peer` in another operation, or found `fault`. Only the first verdict is kept.
[[nodiscard]] RONDO_HD inline Look tell_foreign(const LoadStoreOperation &operation, uint32_t peer,
                                                Fault fault = Fault::foreign_slot) {
  const uint64_t verdict = pack_verdict(Outcome::fault, fault, peer);
  (void)memory::exchange_if(operation.base.progress->verdict, 0, verdict);  // E1
  return Look::stop;
}

/// Returns the KernelEnds in a block's shared memory, for thread 0.
[[nodiscard]] RONDO_HD inline KernelEnds &ends_in(std::byte *shared) {
  return *reinterpret_cast<KernelEnds *>(shared + shared_bytes_for(1, 0));
}

/// Begins the kernel; thread 0 calls it once. It stores in `ends` what thread 0 needs at the end, so that thread 0 need
/// not load it there.
RONDO_HD inline void begin(const LoadStoreOperation &operation, uint32_t channel, const KernelEnds &loaded,
                           KernelEnds &ends) {
  ends = loaded;
  if (channel == 0) begin_operation(operation.base, loaded.kernels);
}

/// Begins the kernel. Returns false if an earlier kernel failed; then this kernel publishes nothing.
template <Group G>
[[nodiscard]] RONDO_HD bool may_begin(G group, const LoadStoreOperation &operation, uint32_t channel,
                                      KernelEnds &ends) {
  bool failed = false;
  if (group.rank() == 0) {
    const uint64_t verdict = memory::load_relaxed(operation.base.progress->verdict);  // A1
    begin(operation, channel, load_ends(*operation.base.progress), ends);
    failed = verdict != 0;
  }
  return !group.any(failed);
}

/// Waits, maybe for long, until judge() returns ready for the flags of all peers, or stop for one of them. Thread 0
/// calls it. load(peer) loads a flag relaxed. Flags that were ready are not loaded again. Loads of several flags are in
/// flight together, because each takes a round trip over a link. Returns false to stop.
template <Group G, class Load, class Judge>
[[nodiscard]] RONDO_HD bool watch_peers(G group, const LoadStoreOperation &operation, bool &told, const Load &load,
                                        const Judge &judge) {
  constexpr uint32_t loads_at_once = 4;
  const uint32_t count = operation.rank_count();
  uint64_t missing = ~uint64_t{0} >> (load_store_rank_count_max - count) & ~(uint64_t{1} << operation.rank);
  return watch(group, operation.base, [&] { return seems_stopped(operation.base, told); }, [&] {
    RONDO_KEEP_LOOP
    for (uint32_t first = 0; first < count; first += loads_at_once) {
      const auto is_missing = [&](uint32_t turn) { return (missing >> (first + turn) & 1) != 0; };
      uint64_t seen[loads_at_once] = {};
      RONDO_UNROLL
      for (uint32_t turn = 0; turn < loads_at_once; ++turn)
        if (is_missing(turn)) seen[turn] = load(first + turn);
      RONDO_UNROLL
      for (uint32_t turn = 0; turn < loads_at_once; ++turn) {
        const Look look = is_missing(turn) ? judge(seen[turn]) : Look::waits;
        if (look == Look::stop) return true;  // the next attempt finds it, too
        if (look == Look::ready) missing &= ~(uint64_t{1} << (first + turn));
      }
    }
    return missing == 0;
  });
}
static_assert(load_store_rank_count_max == 64);  // the bits of `missing`

/// Repeats attempt() until it returns ready in all threads. All threads then see what any of them acquired. Returns
/// false to stop. If an attempt was in vain, thread 0 alone waits by watch_peers().
template <Group G, class Attempt, class Load, class Judge>
[[nodiscard]] RONDO_HD bool repeat_until_ready(G group, const LoadStoreOperation &operation, Attempt &&attempt,
                                               const Load &load, const Judge &judge) {
  bool told = false;
  for (;;) {  // bounded by the deadline, at which the host sets the abort word
    const Look look = attempt();
    if (!any_at<memory::Site::load_store_ready_vote>(group, look != Look::ready)) return true;
    bool stops = look == Look::stop;
    if (group.rank() == 0 && !stops) stops = !watch_peers(group, operation, told, load, judge);
    if (group.any(stops)) return false;
  }
}

/// Calls look_at() for the peers that this thread polls, one after the other, from `peer` on. Stops at the first one
/// that is not ready, and leaves it in `peer`.
template <Group G, class LookAt>
[[nodiscard]] RONDO_HD Look look_at_peers(G group, const LoadStoreOperation &operation, uint32_t &peer,
                                          const LookAt &look_at) {
  for (; peer < operation.rank_count(); peer += group.size()) {
    if (peer == operation.rank) continue;
    Look seen = Look::waits;
    (void)poll(operation.base.poll_count, [&] {
      seen = look_at(peer);
      return seen != Look::waits;
    });
    if (seen != Look::ready) return seen;
  }
  return Look::ready;
}

}  // namespace rondo::device
