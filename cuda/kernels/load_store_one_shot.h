// SPDX-License-Identifier: Apache-2.0
// This file implements one_shot by load_store: each rank posts all its data, and reduces what all ranks have posted.
// Payloads move in words of 8 bytes, which are pairs of units. The last word is padded with zeros. load_store_place.h
// describes the ordering, and when ranks push their posts.
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
template <class Reducer>
inline constexpr bool has_short_posts = sizeof(typename Reducer::Storage) > 1;

/// A posted payload, and the words of it that belong to a channel.
struct Payload {
  uint32_t bytes;
  uint32_t word_count;
  uint32_t begin;
  uint32_t end;
};
[[nodiscard]] RONDO_HD inline Payload make_payload(const LoadStoreOperation &operation, uint32_t bytes,
                                                   uint32_t channel) {
  const uint32_t word_count = bytes == 0 ? 1 : (bytes + word_bytes - 1) / word_bytes;  // at least the first word
  const uint32_t begin = operation.post_words * channel, end = begin + operation.post_words;
  return {bytes, word_count, begin < word_count ? begin : word_count, end < word_count ? end : word_count};
}

struct Post : Payload {
  uint64_t number;
  PostFlags flags;
};

/// Returns a word of a payload in the form in which it is posted.
[[nodiscard]] RONDO_HD inline memory::Pair pair_of(uint64_t word, const PostFlags &flags) {
  return {ll::pack(static_cast<uint32_t>(word), flags.first),
          ll::pack(static_cast<uint32_t>(word >> 32), flags.second)};
}
[[nodiscard]] RONDO_HD inline uint64_t word_of(const memory::Pair &pair) {
  return uint64_t{ll::data_of(pair.second)} << 32 | ll::data_of(pair.first);
}

[[nodiscard]] RONDO_HD inline bool must_sweep(uint64_t number) { return number > 1 && number % post_sweep_period < 2; }

/// Calls write() for the units of each copy of this rank's post. A rank that pushes begins at the rank after it. So
/// ranks write to different places at a time.
template <class Write>
RONDO_HD void for_each_copy(const LoadStoreOperation &operation, uint64_t number, const Write &write) {
  const uint32_t ranks = operation.rank_count(), pushes = operation.geometry.pushes;
  uint32_t reader = operation.rank;
  RONDO_KEEP_LOOP
  for (uint32_t copy = 0; copy < (pushes != 0 ? ranks : 1); ++copy) {
    reader = reader + 1 < ranks ? reader + 1 : 0;
    write(operation.units(number, operation.rank, reader));
  }
}

/// Stores word `index` of the post for all readers.
RONDO_HD inline void post_word(const LoadStoreOperation &operation, uint64_t number, uint32_t index,
                               const memory::Pair &pair) {
  memory::Releases releases;
  const bool orders = operation.base.on_one_device == 0;
  for_each_copy(operation, number, [&](uint64_t *units) {
    uint64_t *const at = units + 2 * size_t{index};
    if (index != 0) {
      memory::store_pair_relaxed(at, pair);  // P1, pairs by value with W1
    } else if (orders) {
      releases.store<memory::Site::load_store_post>(at[0], pair.first);  // P2, pairs with W2
      memory::store_relaxed(at[1], pair.second);                         // P1; behind P2, whose fence would wait for it
    } else {
      memory::store_first_pair<memory::Site::load_store_post>(at, pair, false);  // P2, pairs with W2
    }
  });
}

/// Clears the rest of the area in each copy. If not, a unit of an earlier, longer post could still lie there when its
/// flag is used again.
template <Group G>
RONDO_HD void sweep(G group, const LoadStoreOperation &operation, const Post &post, uint32_t channel) {
  const size_t all = operation.geometry.column_bytes() / sizeof(uint64_t);
  const size_t first = 2 * size_t{post.word_count} + size_t{channel} * group.size() + group.rank();
  for_each_copy(operation, post.number, [&](uint64_t *units) {
    for (size_t unit = first; unit < all; unit += size_t{operation.base.lane_count} * group.size())
      memory::store_relaxed(units[unit], 0);
  });
}

/// Writes the post (P1, P2). `first` is the thread's first word.
template <Group G>
RONDO_HD void write_post(G group, const LoadStoreOperation &operation, const Post &post, uint32_t channel,
                         uint64_t first) {
  for (uint32_t index = post.begin + group.rank(); index < post.end; index += group.size()) {
    const uint64_t word = index == post.begin + group.rank()
                              ? first
                              : load_word(operation.base.buffers.send.data, post.bytes, index);
    post_word(operation, post.number, index, pair_of(word, post.flags));
  }
  if (must_sweep(post.number)) sweep(group, operation, post, channel);
}

/// Returns 0 if both units have their flags. It compares bits. If each load had its own condition, ptxas would run
/// short of predicates and wait for the first loads before the last ones are issued.
[[nodiscard]] RONDO_HD inline uint32_t flags_missing(const memory::Pair &pair, const PostFlags &flags) {
  return (ll::flag_in(pair.first) ^ flags.first) | (ll::flag_in(pair.second) ^ flags.second);
}

/// Does W1 of word `index` for all ranks, including this one, and reduces the word into `result`. Returns false if
/// something has not arrived. All loads of a turn are in flight together, with the loads of beside(). The last rank
/// needs no turn of its own: it is loaded in the last turn of the others.
template <class Reducer, class Beside>
[[nodiscard]] RONDO_HD bool reduce_word(const LoadStoreOperation &operation, const Post &post, uint32_t index,
                                        const Beside &beside, uint64_t &result) {
  constexpr uint32_t looks = Reducer::looks_at_once;
  const uint32_t last = operation.rank_count() - 1;
  const auto look = [&](uint32_t rank) {  // pairs by value with P1
    return memory::load_pair_relaxed(operation.units(post.number, rank, operation.rank) + 2 * size_t{index});
  };
  const memory::Pair full = pair_of(0, post.flags);
  typename Reducer::template Partial<uint64_t> partial{};
  RONDO_KEEP_LOOP
  for (uint32_t first = 0; first < last; first += looks) {
    memory::Pair found[looks], found_last = full;
    RONDO_UNROLL
    for (uint32_t turn = 0; turn < looks; ++turn) found[turn] = full;
    const bool all = poll(operation.base.poll_count, [&] {
      beside();
      RONDO_UNROLL
      for (uint32_t turn = 0; turn < looks; ++turn)
        if (first + turn < last) found[turn] = look(first + turn);
      if (first + looks >= last) found_last = look(last);
      uint32_t missing = flags_missing(found_last, post.flags);
      RONDO_UNROLL
      for (uint32_t turn = 0; turn < looks; ++turn) missing |= flags_missing(found[turn], post.flags);
      return missing == 0;
    });
    if (!all) return false;
    with_reduction<Reducer>(operation.base.op, [&](auto reduction) {
      using Reduction = decltype(reduction);
      RONDO_UNROLL
      for (uint32_t turn = 0; turn < looks; ++turn) {
        if (first + turn >= last) break;
        const uint64_t word = word_of(found[turn]);
        partial = first + turn == 0 ? Reduction::begin(word, operation.base.divisor)
                                    : Reduction::add(partial, word, operation.base.divisor);
      }
      if (first + looks >= last) result = Reduction::finish(partial, word_of(found_last), operation.base.divisor);
    });
  }
  return true;
}

/// Says whether a word is of another operation's post with the same number.
[[nodiscard]] RONDO_HD inline bool is_foreign(const memory::Pair &pair, const PostFlags &flags) {
  return is_foreign_flag(ll::flag_in(pair.first), flags.first) ||
         is_foreign_flag(ll::flag_in(pair.second), flags.second);
}

/// The first words of the peers' posts, as polled by one thread.
struct FirstLooks {
  uint32_t peer;        ///< the peer that it polls now
  memory::Pair seen{};  ///< the first word of that peer at the latest poll

  [[nodiscard]] RONDO_HD bool has(const PostFlags &flags) const { return flags_missing(seen, flags) == 0; }
  RONDO_HD void look(const LoadStoreOperation &operation, const Post &post, bool orders) {
    seen = memory::load_first_pair(operation.units(post.number, peer, operation.rank), orders);  // W2, see P2
  }
  [[nodiscard]] RONDO_HD Look judge(const LoadStoreOperation &operation, const PostFlags &flags) {
    if (!has(flags)) return is_foreign(seen, flags) ? tell_foreign(operation, peer) : Look::waits;
    seen = {};  // for the next peer
    return Look::ready;
  }
};

/// Reduces the thread's words from `index` on, and polls first words of peers. The last threads of a group poll these,
/// because they have no words in short posts. Returns Look::ready if everything is done.
template <class Reducer, Group G>
[[nodiscard]] RONDO_HD Look finish_post(G group, const LoadStoreOperation &operation, const Post &post, uint32_t &index,
                                        FirstLooks &firsts) {
  const bool orders = operation.base.on_one_device == 0;
  for (; index < post.end; index += group.size()) {
    uint64_t reduced = 0;
    const bool found = reduce_word<Reducer>(
        operation, post, index,
        [&] {  // an acquire would delay the other polls
          if (!orders && firsts.peer < operation.rank_count() && firsts.peer != operation.rank &&
              !firsts.has(post.flags))
            firsts.look(operation, post, false);
        },
        reduced);
    if (!found) break;
    store_word(operation.base.buffers.recv.data, post.bytes, index, reduced);
  }
  const Look looked = look_at_peers(group, operation, firsts.peer, [&](uint32_t) {
    if (!firsts.has(post.flags)) firsts.look(operation, post, orders);
    return firsts.judge(operation, post.flags);
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
/// done: its word `index`, if it has one, is reduced and stored, and `first_word`, if it polls one, has come.
template <class Reducer, uint32_t ranks>
[[nodiscard]] RONDO_HD bool reduce_short_post(const LoadStoreOperation &operation, uint64_t number, uint32_t index,
                                              bool has_word, const uint64_t *first_word) {
  const DeviceOperation &base = operation.base;
  const PostFlags flags = post_flags(number, base.buffers.signature);
  const bool orders = base.on_one_device == 0;
  memory::Pair found[ranks];
  const uint64_t *from[ranks];
  uint32_t missing_of[ranks];
  RONDO_UNROLL
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    from[rank] = reckoned_here(operation.units(number, rank, operation.rank) + 2 * size_t{index});
    missing_of[rank] = 1;
  }
  memory::Pair seen = pair_of(0, flags);
  const bool all = poll(base.poll_count, [&] {
    if (has_word) {
      RONDO_UNROLL
      for (uint32_t rank = 0; rank < ranks; ++rank)
        if (missing_of[rank] != 0) found[rank] = memory::load_pair_relaxed(from[rank]);  // W1, pairs by value with P1
    }
    if (first_word != nullptr) seen = memory::load_first_pair(first_word, orders && !has_word);  // W2, see P2
    uint32_t missing = flags_missing(seen, flags);
    if (has_word) {
      RONDO_UNROLL
      for (uint32_t rank = 0; rank < ranks; ++rank) missing |= missing_of[rank] = flags_missing(found[rank], flags);
    }
    return missing == 0;
  });
  if (!all) return false;
  if (!has_word) return true;
  // An acquire in the loop would delay the polls of this thread's word.
  if (orders && first_word != nullptr) (void)memory::load_first_pair(first_word, true);  // W2
  // The operation is selected behind the polls, which it would delay.
  const uint64_t reduced = with_reduction<Reducer>(base.op, [&](auto reduction) {
    using Reduction = decltype(reduction);
    auto partial = Reduction::begin(word_of(found[0]), base.divisor);
    RONDO_UNROLL
    for (uint32_t rank = 1; rank + 1 < ranks; ++rank)
      partial = Reduction::add(partial, word_of(found[rank]), base.divisor);
    return Reduction::finish(partial, word_of(found[ranks - 1]), base.divisor);
  });
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
template <class Reducer, Group G>
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
  const bool is_swept = static_cast<uint32_t>(number) % post_sweep_period < 2;
  if (!is_short || static_cast<uint32_t>(before.first) != 0 || is_swept) return ShortPass::none;
  const memory::Pair pair = pair_of(word, post_flags(number, base.buffers.signature));
  if (has_word && base.on_one_device != 0 && operation.geometry.pushes == 0)
    memory::store_first_pair<memory::Site::load_store_post>(  // P1, P2
        post.units + static_cast<uint32_t>(number) % 2 * post.units_of_area + 2 * size_t{index}, pair, false);
  else if (has_word)
    post_word(operation, number, index, pair);
  if (group.rank() == 0 && channel == 0) begin_operation(base, ends.kernels);
  const uint32_t peer = group.size() - 1 - group.rank();
  const uint64_t *const first_word =
      peer < ranks && peer != operation.rank ? operation.units(number, peer, operation.rank) : nullptr;
  const bool reduced = ranks == 8   ? reduce_short_post<Reducer, 8>(operation, number, index, has_word, first_word)
                       : ranks == 2 ? reduce_short_post<Reducer, 2>(operation, number, index, has_word, first_word)
                                    : reduce_short_post<Reducer, 4>(operation, number, index, has_word, first_word);
  if (!any_at<memory::Site::load_store_ready_vote>(group, !reduced)) {
    if (group.rank() == 0) report(base, 1, 0, 1, [&] { return ends; });
    return ShortPass::ended;
  }
  return reduced ? ShortPass::reduced : ShortPass::posted;
}

/// Runs all work of a block. Only two loads precede the post, and they are in flight together: the first word, and the
/// pair of told_verdict and the number of posts. `shared` is its shared memory, load_store_shared_bytes().
template <class Reducer, Group G>
RONDO_HD void run_one_shot(G group, const LoadStoreOperation &operation, uint32_t channel, std::byte *shared) {
  const DeviceProgress &progress = *operation.base.progress;
  const memory::Pair before = memory::load_pair_relaxed(&progress.told_verdict);  // A1; the same in all threads
  const KernelEnds ends{progress.ended_kernels, progress.ended_number, before.second};  // for thread 0
  ShortPass pass = ShortPass::none;
  if constexpr (has_short_posts<Reducer>) pass = run_short_post<Reducer>(group, operation, channel, before, ends);
  if (pass == ShortPass::ended) return;
  const auto bytes = static_cast<uint32_t>(operation.count * sizeof(typename Reducer::Storage));
  const Payload payload = make_payload(operation, bytes, channel);
  uint32_t index = payload.begin + group.rank() + (pass == ShortPass::reduced ? group.size() : 0);
  const bool failed = before.first != 0;
  const uint64_t number = before.second + 1;
  const Post post{payload, number, post_flags(number, operation.base.buffers.signature)};
  if (pass != ShortPass::none) {
    if (group.rank() == 0) ends_in(shared) = ends;
  } else {
    const uint64_t first = index < payload.end ? load_word(operation.base.buffers.send.data, bytes, index) : 0;
    if (!failed) write_post(group, operation, post, channel, first);
    // This runs after the post, because the post's release would otherwise wait for this store to the host.
    if (group.rank() == 0) begin(operation, channel, ends, ends_in(shared));
  }
  // While thread 0 waits for long, it polls the first word of each peer, and then the first word of this channel. A
  // peer in another operation may post fewer words.
  const auto state_of = [&](uint32_t peer, uint32_t word) {
    const uint64_t *const units = operation.units(number, peer, operation.rank);
    const memory::Pair pair = memory::load_pair_relaxed(units + 2 * size_t{word});
    if (flags_missing(pair, post.flags) == 0) return Look::ready;
    return is_foreign(pair, post.flags) ? Look::stop : Look::waits;
  };
  const uint32_t watched = payload.begin < payload.end ? payload.begin : 0;
  FirstLooks firsts{group.size() - 1 - group.rank()};
  const bool done = repeat_until_ready(
      group, operation,
      [&] { return failed ? Look::stop : finish_post<Reducer>(group, operation, post, index, firsts); },
      [&](uint32_t peer) {
        const Look first = state_of(peer, 0);
        return static_cast<uint64_t>(first == Look::ready ? state_of(peer, watched) : first);
      },
      [](uint64_t seen) { return static_cast<Look>(seen); });
  const uint64_t verdict = done ? 0 : pack_verdict(Outcome::stopped, Fault::none, 0);
  if (group.rank() == 0) report(operation.base, 1, verdict, 1, [&] { return ends_in(shared); });
}

}  // namespace rondo::device
