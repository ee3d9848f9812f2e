// SPDX-License-Identifier: Apache-2.0
// one_shot by load_store: everybody posts all it has, and reduces what all have posted. Payloads go by words
// of 8 bytes, a pair of units each; the last word is padded with zeros. Ordering: load_store_place.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/kernels/load_store_reduction.h"
#include "cuda/kernels/load_store_wait.h"
#include "src/proto/ll.h"

namespace rondo::device {

inline constexpr uint32_t word_bytes = 8;

/// Word `index` of a payload of so many bytes, at whatever address.
[[nodiscard]] RONDO_HD inline uint64_t load_word(const std::byte *payload, uint64_t bytes, uint32_t index) {
  const uint64_t begin = uint64_t{index} * word_bytes;
  const std::byte *const at = payload + begin;
  if (bytes - begin >= word_bytes) {
    if (GroupArgs::address(at) % sizeof(uint64_t) == 0) return load_aligned<uint64_t, sizeof(uint64_t)>(at);
    if (GroupArgs::address(at) % sizeof(uint32_t) == 0)
      return load_aligned<uint32_t, sizeof(uint32_t)>(at) |
             uint64_t{load_aligned<uint32_t, sizeof(uint32_t)>(at + sizeof(uint32_t))} << 32;
  }
  const uint64_t here = bytes - begin < word_bytes ? bytes - begin : word_bytes;
  uint64_t word = 0;
  RONDO_KEEP_LOOP
  for (uint32_t byte = 0; byte < here; ++byte) word |= uint64_t{static_cast<uint8_t>(at[byte])} << (8 * byte);
  return word;
}

RONDO_HD inline void store_word(std::byte *payload, uint64_t bytes, uint32_t index, uint64_t word) {
  const uint64_t begin = uint64_t{index} * word_bytes;
  std::byte *const at = payload + begin;
  if (bytes - begin >= word_bytes) {
    if (GroupArgs::address(at) % sizeof(uint64_t) == 0) return store_aligned<sizeof(uint64_t)>(at, word);
    if (GroupArgs::address(at) % sizeof(uint32_t) == 0) {
      store_aligned<sizeof(uint32_t)>(at, static_cast<uint32_t>(word));
      return store_aligned<sizeof(uint32_t)>(at + sizeof(uint32_t), static_cast<uint32_t>(word >> 32));
    }
  }
  const uint64_t here = bytes - begin < word_bytes ? bytes - begin : word_bytes;
  RONDO_KEEP_LOOP
  for (uint32_t byte = 0; byte < here; ++byte) at[byte] = static_cast<std::byte>(word >> (8 * byte));
}

/// A post, and the words of it that a channel has.
struct Post {
  uint64_t number;
  uint64_t bytes;
  uint32_t flag;
  uint32_t word_count;
  uint32_t begin;
  uint32_t end;
};

[[nodiscard]] RONDO_HD inline Post make_post(const LoadStoreOperation &operation, uint64_t number, uint64_t bytes,
                                             uint32_t channel) {
  const auto word_count = static_cast<uint32_t>((bytes + word_bytes - 1) / word_bytes);
  const uint32_t channels = operation.base.lane_count;
  const uint32_t share = (word_count + channels - 1) / channels;
  const uint32_t begin = share * channel < word_count ? share * channel : word_count;
  return {number,     bytes, ll::flag_of(number),
          word_count, begin, share < word_count - begin ? begin + share : word_count};
}

/// Clears what the post leaves of its area, so that no unit of a longer one can have a flag that comes again.
template <Group G>
RONDO_HD void sweep(G group, const LoadStoreOperation &operation, const Post &post, uint32_t channel) {
  const LoadStorePlace own = operation.place(operation.rank);
  const uint32_t channels = operation.base.lane_count;
  uint64_t *const units = own.units(post.number);
  const size_t all = operation.geometry.area_bytes() / sizeof(uint64_t);
  for (size_t unit = 2 * size_t{post.word_count} + size_t{channel} * group.size() + group.rank(); unit < all;
       unit += size_t{channels} * group.size())
    memory::store_relaxed(units[unit], 0);
  if (channel != 0 || group.rank() != 0) return;
  for (uint32_t unused = channels; unused < operation.geometry.channel_count; ++unused)
    memory::store_relaxed(own.header(post.number, unused), 0);
}

/// P: data announces itself, so the header comes first and nobody waits for it behind the data.
/// `first`: the thread's first word.
template <Group G>
RONDO_HD void write_post(G group, const LoadStoreOperation &operation, const Post &post, uint32_t channel,
                         uint64_t first) {
  const LoadStorePlace own = operation.place(operation.rank);
  uint64_t *const units = own.units(post.number);
  if (group.rank() + 1 == group.size())  // before all units, which it does not wait for; by a thread that has few
    memory::store_release_unless<memory::Site::load_store_post>(  // P2, pairs with W2
        own.header(post.number, channel), ll::pack(operation.base.buffers.signature, post.flag),
        operation.base.on_one_device != 0);
  for (uint32_t index = post.begin + group.rank(); index < post.end; index += group.size()) {
    const uint64_t word = index == post.begin + group.rank()
                              ? first
                              : load_word(operation.base.buffers.send.data, post.bytes, index);
    memory::store_pair_relaxed(
        units + 2 * size_t{index},  // P1, pairs by value with W1
        {ll::pack(static_cast<uint32_t>(word), post.flag), ll::pack(static_cast<uint32_t>(word >> 32), post.flag)});
  }
  if (post.number > 1 && post.number % ll::sweep_period < 2) sweep(group, operation, post, channel);
}

[[nodiscard]] RONDO_HD inline bool has_flag(const memory::Pair &pair, uint32_t flag) {
  return ll::flag_in(pair.first) == flag && ll::flag_in(pair.second) == flag;
}
[[nodiscard]] RONDO_HD inline uint64_t word_of(const memory::Pair &pair) {
  return uint64_t{ll::data_of(pair.second)} << 32 | ll::data_of(pair.first);
}

/// W1 of word `index` of all ranks, whose reduction goes to `result`. False: something is still to come. The looks of a
/// turn are under way together, the last rank's with those of the last turn.
template <class Reduction>
[[nodiscard]] RONDO_HD bool reduce_word(const LoadStoreOperation &operation, const Post &post, uint32_t index,
                                      uint64_t &result) {
  constexpr uint32_t looks = Reduction::looks_at_once;
  const uint32_t self = operation.rank, last = operation.rank_count() - 1;
  const size_t at = operation.geometry.units_at(post.number) + size_t{index} * sizeof(memory::Pair);
  const auto look = [&](uint32_t rank) {  // pairs by value with P1
    return memory::load_pair_relaxed(reinterpret_cast<const uint64_t *>(operation.places[rank] + at));
  };
  const uint64_t own = load_word(operation.base.buffers.send.data, post.bytes, index);
  uint64_t partial = 0;
  RONDO_KEEP_LOOP
  for (uint32_t first = 0; first < last; first += looks) {
    memory::Pair found[looks]{}, found_last{};
    const bool needs_last = first + looks >= last && last != self;
    const bool all = poll(operation.base.poll_count, [&] {
      RONDO_UNROLL
      for (uint32_t turn = 0; turn < looks; ++turn)
        if (first + turn < last && first + turn != self) found[turn] = look(first + turn);
      if (needs_last) found_last = look(last);
      bool full = !needs_last || has_flag(found_last, post.flag);
      RONDO_UNROLL
      for (uint32_t turn = 0; turn < looks; ++turn)
        if (first + turn < last && first + turn != self) full &= has_flag(found[turn], post.flag);
      return full;
    });
    if (!all) return false;
    RONDO_UNROLL
    for (uint32_t turn = 0; turn < looks; ++turn) {
      if (first + turn >= last) continue;
      const uint64_t word = first + turn == self ? own : word_of(found[turn]);
      partial = first + turn == 0 ? word : Reduction::template step<false>(partial, word, 0);
    }
    result = word_of(found_last);
  }
  result = Reduction::template step<true>(partial, last == self ? own : result, operation.base.divisor);
  return true;
}

template <class Reduction, Group G>
[[nodiscard]] RONDO_HD bool run_one_shot(G group, const LoadStoreOperation &operation, uint32_t channel,
                                         uint64_t number, const KernelEnds &ends) {
  const Post post = make_post(operation, number, operation.count * sizeof(typename Reduction::Storage), channel);
  uint32_t index = post.begin + group.rank(), peer = group.rank();
  // Under way while the verdict is: a short post has no other word.
  const uint64_t first = index < post.end ? load_word(operation.base.buffers.send.data, post.bytes, index) : 0;
  if (!may_begin(group, operation)) return false;
  write_post(group, operation, post, channel, first);
  tell_begun(group, operation, channel, ends);
  return repeat_until_ready(group, operation, [&] {
    for (; index < post.end; index += group.size()) {
      uint64_t reduced = 0;
      const memory::Turn turn;
      memory::Attempt attempt;
      if (!reduce_word<Reduction>(operation, post, index, reduced)) break;
      attempt.keep();
      store_word(operation.base.buffers.recv.data, post.bytes, index, reduced);
    }
    const memory::Turn turn;
    const Look headers = look_at_peers(group, operation, peer, [&](uint32_t of) {
      const uint64_t header = memory::load_acquire_unless(  // W2, see P2
          operation.place(of).header(post.number, channel), operation.base.on_one_device != 0);
      if (ll::flag_in(header) != post.flag) return Look::waits;
      return ll::data_of(header) == operation.base.buffers.signature ? Look::ready : tell_foreign(operation, of);
    });
    return headers == Look::ready && index < post.end ? Look::waits : headers;
  });
}

}  // namespace rondo::device
