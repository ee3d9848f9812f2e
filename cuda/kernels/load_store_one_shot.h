// SPDX-License-Identifier: Apache-2.0
// This file implements one_shot by load_store: each rank posts all its data, and reduces what all ranks have posted.
// Payloads move in words of 8 bytes, which are pairs of units. The last word is padded with zeros. load_store_place.h
// describes the ordering.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/kernels/load_store_reduction.h"
#include "cuda/kernels/load_store_wait.h"
#include "src/proto/ll.h"

namespace rondo::device {

/// Returns word `index` of a payload of `bytes` bytes. The payload need not be aligned.
[[nodiscard]] RONDO_HD inline uint64_t load_word(const std::byte *payload, uint32_t bytes, uint32_t index) {
  const uint32_t begin = index * word_bytes;
  const std::byte *const at = payload + begin;
  if (bytes - begin >= word_bytes) {
    if (GroupArgs::address(at) % sizeof(uint64_t) == 0) return load_aligned<uint64_t, sizeof(uint64_t)>(at);
    if (GroupArgs::address(at) % sizeof(uint32_t) == 0)
      return load_aligned<uint32_t, sizeof(uint32_t)>(at) |
             uint64_t{load_aligned<uint32_t, sizeof(uint32_t)>(at + sizeof(uint32_t))} << 32;
  }
  const uint32_t here = bytes - begin < word_bytes ? bytes - begin : word_bytes;
  uint64_t word = 0;
  RONDO_KEEP_LOOP
  for (uint32_t byte = 0; byte < here; ++byte) word |= uint64_t{static_cast<uint8_t>(at[byte])} << (8 * byte);
  return word;
}

RONDO_HD inline void store_word(std::byte *payload, uint32_t bytes, uint32_t index, uint64_t word) {
  const uint32_t begin = index * word_bytes;
  std::byte *const at = payload + begin;
  if (bytes - begin >= word_bytes) {
    if (GroupArgs::address(at) % sizeof(uint64_t) == 0) return store_aligned<sizeof(uint64_t)>(at, word);
    if (GroupArgs::address(at) % sizeof(uint32_t) == 0) {
      store_aligned<sizeof(uint32_t)>(at, static_cast<uint32_t>(word));
      return store_aligned<sizeof(uint32_t)>(at + sizeof(uint32_t), static_cast<uint32_t>(word >> 32));
    }
  }
  const uint32_t here = bytes - begin < word_bytes ? bytes - begin : word_bytes;
  RONDO_KEEP_LOOP
  for (uint32_t byte = 0; byte < here; ++byte) at[byte] = static_cast<std::byte>(word >> (8 * byte));
}

/// This is false for small elements, each of which would need much code.
template <class Reduction>
inline constexpr bool has_short_posts = sizeof(typename Reduction::Storage) > 1;

/// A posted payload, and the words of it that belong to a channel.
struct Payload {
  uint32_t bytes;
  uint32_t word_count;
  uint32_t begin;
  uint32_t end;
};
[[nodiscard]] RONDO_HD inline Payload make_payload(const LoadStoreOperation &operation, uint32_t bytes,
                                                   uint32_t channel) {
  const uint32_t word_count = (bytes + word_bytes - 1) / word_bytes;
  const uint32_t begin = operation.post_words * channel, end = begin + operation.post_words;
  return {bytes, word_count, begin < word_count ? begin : word_count, end < word_count ? end : word_count};
}

struct Post : Payload {
  uint64_t number;
  uint32_t flag;
};

/// Returns a word of a payload in the form in which it is posted.
[[nodiscard]] RONDO_HD inline memory::Pair pair_of(uint64_t word, uint32_t flag) {
  return {ll::pack(static_cast<uint32_t>(word), flag), ll::pack(static_cast<uint32_t>(word >> 32), flag)};
}
[[nodiscard]] RONDO_HD inline uint64_t word_of(const memory::Pair &pair) {
  return uint64_t{ll::data_of(pair.second)} << 32 | ll::data_of(pair.first);
}

[[nodiscard]] RONDO_HD inline bool must_sweep(uint64_t number) { return number > 1 && number % ll::sweep_period < 2; }

/// Clears the rest of the post's area. If not, a unit of an earlier, longer post could still lie there when its flag is
/// used again.
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

/// Writes the post (P1, P2). The data announces itself, so the header is written first, and no thread waits for it
/// after the data. `first` is the thread's first word.
template <Group G>
RONDO_HD void write_post(G group, const LoadStoreOperation &operation, const Post &post, uint32_t channel,
                         uint64_t first) {
  const LoadStorePlace own = operation.place(operation.rank);
  uint64_t *const units = own.units(post.number);
  if (group.rank() + 1 == group.size())  // before all units, for which it does not wait; by a thread with few units
    memory::store_release_unless<memory::Site::load_store_post>(  // P2, pairs with W2
        own.header(post.number, channel), ll::pack(operation.base.buffers.signature, post.flag),
        operation.base.on_one_device != 0);
  for (uint32_t index = post.begin + group.rank(); index < post.end; index += group.size()) {
    const uint64_t word = index == post.begin + group.rank()
                              ? first
                              : load_word(operation.base.buffers.send.data, post.bytes, index);
    memory::store_pair_relaxed(units + 2 * size_t{index}, pair_of(word, post.flag));  // P1, pairs by value with W1
  }
  if (must_sweep(post.number)) sweep(group, operation, post, channel);
}

/// Returns 0 if both units have the flag. It compares bits. If each load had its own condition, ptxas would run short
/// of predicates and wait for the first loads before the last ones are issued.
[[nodiscard]] RONDO_HD inline uint32_t flags_missing(const memory::Pair &pair, uint32_t flag) {
  return (ll::flag_in(pair.first) ^ flag) | (ll::flag_in(pair.second) ^ flag);
}

/// Does W1 of word `index` for all ranks, including this one, and reduces the word into `result`. Returns false if
/// something has not arrived. All loads of a turn are in flight together, with the loads of beside(). The last rank
/// needs no turn of its own: it is loaded in the last turn of the others.
template <class Reduction, class Beside>
[[nodiscard]] RONDO_HD bool reduce_word(const LoadStoreOperation &operation, const Post &post, uint32_t index,
                                        const Beside &beside, uint64_t &result) {
  constexpr uint32_t looks = Reduction::looks_at_once;
  const uint32_t last = operation.rank_count() - 1;
  const size_t at = operation.geometry.units_at(post.number) + size_t{index} * sizeof(memory::Pair);
  const auto look = [&](uint32_t rank) {  // pairs by value with P1
    return memory::load_pair_relaxed(reinterpret_cast<const uint64_t *>(operation.places[rank] + at));
  };
  const uint64_t full = ll::pack(0, post.flag);
  typename Reduction::template Partial<uint64_t> partial{};
  RONDO_KEEP_LOOP
  for (uint32_t first = 0; first < last; first += looks) {
    memory::Pair found[looks], found_last{full, full};
    RONDO_UNROLL
    for (uint32_t turn = 0; turn < looks; ++turn) found[turn] = {full, full};
    const bool all = poll(operation.base.poll_count, [&] {
      beside();
      RONDO_UNROLL
      for (uint32_t turn = 0; turn < looks; ++turn)
        if (first + turn < last) found[turn] = look(first + turn);
      if (first + looks >= last) found_last = look(last);
      uint32_t missing = flags_missing(found_last, post.flag);
      RONDO_UNROLL
      for (uint32_t turn = 0; turn < looks; ++turn) missing |= flags_missing(found[turn], post.flag);
      return missing == 0;
    });
    if (!all) return false;
    RONDO_UNROLL
    for (uint32_t turn = 0; turn < looks; ++turn) {
      if (first + turn >= last) break;
      const uint64_t word = word_of(found[turn]);
      partial = first + turn == 0 ? Reduction::begin(word, operation.base.divisor)
                                  : Reduction::add(partial, word, operation.base.divisor);
    }
    result = word_of(found_last);
  }
  result = Reduction::finish(partial, result, operation.base.divisor);
  return true;
}

/// The headers of the peers, as polled by one thread.
struct HeaderLooks {
  uint32_t peer;      ///< the peer that it polls now
  uint64_t seen = 0;  ///< header of that peer at the latest poll

  [[nodiscard]] RONDO_HD bool has(uint32_t flag) const { return ll::flag_in(seen) == flag; }
  RONDO_HD void look(const LoadStoreOperation &operation, const Post &post, uint32_t channel, bool on_one_device) {
    seen = memory::load_acquire_unless(  // W2, see P2
        operation.place(peer).header(post.number, channel), on_one_device);
  }
};

/// Reduces the thread's words from `index` on, and polls its headers. The last threads of a group poll headers, because
/// they have no words in short posts. Returns Look::ready if everything is done.
template <class Reduction, Group G>
[[nodiscard]] RONDO_HD Look finish_post(G group, const LoadStoreOperation &operation, const Post &post,
                                        uint32_t channel, uint32_t &index, HeaderLooks &headers) {
  for (; index < post.end; index += group.size()) {
    uint64_t reduced = 0;
    const bool found = reduce_word<Reduction>(
        operation, post, index,
        [&] {  // an acquire would delay the other polls
          if (operation.base.on_one_device != 0 && headers.peer < operation.rank_count() &&
              headers.peer != operation.rank && !headers.has(post.flag))
            headers.look(operation, post, channel, true);
        },
        reduced);
    if (!found) break;
    store_word(operation.base.buffers.recv.data, post.bytes, index, reduced);
  }
  const Look looked = look_at_peers(group, operation, headers.peer, [&](uint32_t of) {
    if (!headers.has(post.flag)) headers.look(operation, post, channel, operation.base.on_one_device != 0);
    if (!headers.has(post.flag)) return Look::waits;
    const uint32_t signature = ll::data_of(headers.seen);
    headers.seen = 0;  // for the next peer
    return signature == operation.base.buffers.signature ? Look::ready : tell_foreign(operation, of);
  });
  return looked == Look::ready && index < post.end ? Look::waits : looked;
}

/// Makes the compiler compute the address here. Otherwise it computes the address where a condition uses it, in each
/// turn of a loop.
[[nodiscard]] RONDO_HD inline const uint64_t *reckoned_here(const uint64_t *at) {
#if defined(__CUDA_ARCH__)
  asm volatile("" : "+l"(at));
#endif
  return at;
}

/// Does the first polls of a short post, after computing everything that a turn needs. Returns true if this thread is
/// done: its word `index`, if it has one, is reduced and stored, and the header that it polls shows the same
/// operation.
template <class Reduction, uint32_t ranks>
[[nodiscard]] RONDO_HD bool reduce_short_post(const LoadStoreOperation &operation, uint64_t number, uint32_t index,
                                              bool has_word, const uint64_t *header) {
  const DeviceOperation &base = operation.base;
  const uint32_t flag = ll::flag_of(number);
  const size_t at = operation.geometry.units_at(number) + size_t{index} * sizeof(memory::Pair);
  memory::Pair found[ranks];
  const uint64_t *from[ranks];
  uint32_t missing_of[ranks];
  RONDO_UNROLL
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    from[rank] = reckoned_here(reinterpret_cast<const uint64_t *>(operation.places[rank] + at));
    missing_of[rank] = 1;
  }
  uint64_t seen = ll::pack(base.buffers.signature, flag);
  const bool all = poll(base.poll_count, [&] {
    if (header != nullptr) seen = memory::load_acquire_unless(*header, true);  // W2, see P2
    uint32_t missing = ll::flag_in(seen) ^ flag;
    if (has_word) {
      RONDO_UNROLL
      for (uint32_t rank = 0; rank < ranks; ++rank)
        if (missing_of[rank] != 0) found[rank] = memory::load_pair_relaxed(from[rank]);  // W1, pairs by value with P1
      RONDO_UNROLL
      for (uint32_t rank = 0; rank < ranks; ++rank) missing |= missing_of[rank] = flags_missing(found[rank], flag);
    }
    return missing == 0;
  });
  if (!all || ll::data_of(seen) != base.buffers.signature) return false;
  if (!has_word) return true;
  auto partial = Reduction::begin(word_of(found[0]), base.divisor);
  RONDO_UNROLL
  for (uint32_t rank = 1; rank + 1 < ranks; ++rank)
    partial = Reduction::add(partial, word_of(found[rank]), base.divisor);
  const uint64_t reduced = Reduction::finish(partial, word_of(found[ranks - 1]), base.divisor);
  store_aligned<word_bytes>(base.buffers.recv.data + size_t{index} * word_bytes, reduced);
  return true;
}

/// The progress of a one_shot when run_one_shot() continues it. All threads have the same value, except that some may
/// have `posted` and others `reduced`.
enum class ShortPass : uint8_t {
  none,     ///< nothing is posted
  posted,   ///< each thread has at most one word, and this thread has not reduced its word
  reduced,  ///< each thread has at most one word, and this thread has reduced its word
  ended     ///< all threads have reduced their words, and the end is reported
};

/// Runs a post of at most one word per thread, among two, four or eight ranks. A call of a few bytes takes as long as
/// its instructions, so polls must be short. The caller handles the cases that need more instructions: the call fails,
/// is the first one or clears its area, or waits for long. `before` is the result of A1.
template <class Reduction, Group G>
[[nodiscard]] RONDO_HD ShortPass run_short_post(G group, const LoadStoreOperation &operation, uint32_t channel,
                                                const memory::Pair &before, const KernelEnds &ends) {
  const DeviceOperation &base = operation.base;
  const ShortPost &post = operation.short_post;
  const uint32_t index = operation.post_words * channel + group.rank(), ranks = operation.rank_count();
  const bool has_word = group.rank() < operation.post_words && index < post.word_count;
  uint64_t word = 0;
  if (has_word) word = load_aligned<uint64_t, word_bytes>(base.buffers.send.data + size_t{index} * word_bytes);
  const uint64_t number = before.second + 1;
  const bool is_short = post.word_count != 0 && group.size() >= operation.post_words && group.size() >= ranks;
  const bool is_swept = static_cast<uint32_t>(number) % ll::sweep_period < 2;
  if (!is_short || static_cast<uint32_t>(before.first) != 0 || is_swept) return ShortPass::none;
  const uint32_t flag = ll::flag_of(number), odd = static_cast<uint32_t>(number) % 2;
  const bool on_one_device = base.on_one_device != 0;
  if (group.rank() + 1 == group.size())
    memory::store_release_unless<memory::Site::load_store_post>(  // P2, pairs with W2
        post.headers[size_t{odd} * operation.geometry.channel_count + channel].value,
        ll::pack(base.buffers.signature, flag), on_one_device);
  if (has_word)
    memory::store_pair_relaxed(post.units + size_t{odd} * post.units_of_area + 2 * size_t{index},  // P1, see W1
                               pair_of(word, flag));
  if (group.rank() == 0 && channel == 0) begin_operation(base, ends.kernels);
  const uint32_t peer = group.size() - 1 - group.rank();
  const bool has_header = on_one_device && peer < ranks && peer != operation.rank;  // an acquire would delay polls
  const uint64_t *const header = has_header ? &operation.place(peer).header(number, channel) : nullptr;
  const bool reduced = ranks == 8   ? reduce_short_post<Reduction, 8>(operation, number, index, has_word, header)
                       : ranks == 2 ? reduce_short_post<Reduction, 2>(operation, number, index, has_word, header)
                                    : reduce_short_post<Reduction, 4>(operation, number, index, has_word, header);
  if (on_one_device && !any_at<memory::Site::load_store_ready_vote>(group, !reduced)) {
    if (group.rank() == 0) report(base, 1, 0, 1, [&] { return ends; });
    return ShortPass::ended;
  }
  return reduced ? ShortPass::reduced : ShortPass::posted;
}

/// Runs all work of a block. Only two loads precede the post, and they are in flight together: the first word, and the
/// pair of told_verdict and the number of posts. `shared` is its shared memory, load_store_shared_bytes().
template <class Reduction, Group G>
RONDO_HD void run_one_shot(G group, const LoadStoreOperation &operation, uint32_t channel, std::byte *shared) {
  const DeviceProgress &progress = *operation.base.progress;
  const memory::Pair before = memory::load_pair_relaxed(&progress.told_verdict);  // A1; the same in all threads
  const KernelEnds ends{progress.ended_kernels, progress.ended_number, before.second};  // for thread 0
  ShortPass pass = ShortPass::none;
  if constexpr (has_short_posts<Reduction>) pass = run_short_post<Reduction>(group, operation, channel, before, ends);
  if (pass == ShortPass::ended) return;
  const auto bytes = static_cast<uint32_t>(operation.count * sizeof(typename Reduction::Storage));
  const Payload payload = make_payload(operation, bytes, channel);
  uint32_t index = payload.begin + group.rank() + (pass == ShortPass::reduced ? group.size() : 0);
  const bool failed = before.first != 0;
  const uint64_t number = before.second + 1;
  const Post post{payload, number, ll::flag_of(number)};
  if (pass != ShortPass::none) {
    if (group.rank() == 0) ends_in(shared) = ends;
  } else {
    const uint64_t first = index < payload.end ? load_word(operation.base.buffers.send.data, bytes, index) : 0;
    if (!failed) write_post(group, operation, post, channel, first);
    // This runs after the post, because the post's release would otherwise wait for this store to the host.
    if (group.rank() == 0) begin(operation, channel, ends, ends_in(shared));
  }
  HeaderLooks headers{group.size() - 1 - group.rank()};
  const bool done = repeat_until_ready(group, operation, [&] {
    return failed ? Look::stop : finish_post<Reduction>(group, operation, post, channel, index, headers);
  }, [&](uint32_t peer) {  // every rank writes its header before its units
    return memory::load_relaxed(operation.place(peer).header(number, channel));  // see W2
  }, [&](uint64_t seen) {
    if (ll::flag_in(seen) != post.flag) return Look::waits;
    return ll::data_of(seen) == operation.base.buffers.signature ? Look::ready : Look::stop;
  });
  const uint64_t verdict = done ? 0 : pack_verdict(Outcome::stopped, Fault::none, 0);
  if (group.rank() == 0) report(operation.base, 1, verdict, 1, [&] { return ends_in(shared); });
}

}  // namespace rondo::device
