// SPDX-License-Identifier: Apache-2.0
// load_store on devices has no connections. Every rank has one place, memory of its segment that all ranks map. An
// all-reduce may run as a one_shot, and every collective can run like a two_shot. Ranks that can read and write each
// other's buffers need no copy of their contributions (`shared`).
//
// Pull      Among ranks on one device, each rank writes its data into its own place once, and all others read them.
//           There a store to each reader would only add accesses.
// Push      Ranks on several devices store their data into the places of the readers, and load and poll only their own
//           place. So no load crosses a link, which would take a round trip; gates and windows are exceptions. Columns
//           separate the writers in a place. They take memory for each pair of ranks, so at most push_rank_count_max
//           ranks push. Others pull.
// Layout    of a place. Offsets are multiples of 64. If ranks pull, only the owner writes the place, and an area has
//           one column. Only the gates, in rank 0's place, are written by all. Column sizes are in brackets:
//             windows         channel_count lines: where the rank's buffers are, and its operation's signature
//             gates           2 * channel_count lines: arrived and left of each channel
//             post areas      2 areas, for even and for odd posts: a unit of 8 bytes for each 4 bytes of payload. If
//                             ranks push, an area has a column for each rank
//             counters        contributed of each channel, then reduced: a line, or a word for each rank that pushes
//             contributions   channel_count * load_store_area_count areas: input for the results of others. If ranks
//                             push, a column for each peer (result_bytes), otherwise a whole chunk (chunk_bytes)
//             results         channel_count * load_store_area_count areas: the part that a rank has computed. If ranks
//                             push, a column for each peer, otherwise one (result_bytes)
//           A channel has the same share of the vector on all ranks. Channels do not wait for each other.
// one_shot  A1 each thread loads told_verdict (run.h) and the number of posts, relaxed; it does the rest only if no
//              earlier kernel failed
//           P1 store the units of the payload, relaxed    P2 store the units of the first word, release
//           W1 load all units, relaxed, until they have the flags
//           W2 load the first word of the others, acquire, until it has the flags
//   A word is a pair of units. Its two flags have the post's number, and a half of the operation's signature each. So
//   every word says whether it has come, and whether its rank is in the same operation. A post has at least one word.
//   Among threads on one device, P2 and W2 are relaxed, because there the ends of kernels order the callers' accesses.
//   If ranks push, a result is known one crossing of a link after the last rank begins.
//   Reuse     Posts n and n + 2 share an area, but no credit is needed, whatever operations lie between and however
//             many channels each has. A rank writes n + 2 in a later kernel than the one in which it saw the first word
//             of post n + 1 of each other rank. These ranks wrote n + 1 in a later kernel than the one that read all of
//             n. So n has been read by all who read it, wherever it lies (tests/gpu/post_model_test.cpp).
//   Flags     Posts are counted through the communicator's life, and flags have 15 bits of the number. So once in
//             post_sweep_period posts the writer clears what its post does not fill, in every place where it writes.
//   No barrier precedes the post, so each thread decides alone whether it posts. It reads told_verdict, which is set
//   when a failed kernel ends, so all threads of later kernels post nothing. `verdict` would not suffice: another
//   block, or a thread that found a fault, may set it between the reads of two threads. Then one of them would not post
//   what peers wait for, and the peers would not see that this rank is in another operation. The vote after W1 and W2
//   precedes thread 0's report. So each thread has done A1 before the report changes these words.
//
// two_shot  C1 write chunk c's contribution, plain          C2 store contributed = (c + 1, signature), release
//           R1 load `contributed` of all ranks, acquire, until c + 1; read; write the result of this rank's part
//           R2 store reduced = c + 1, release
//           G1 load `reduced` of all ranks, acquire, until c + 1; read the results
//   If ranks push, C1 stores each part with the rank that reduces it, and R stores the result with each rank that needs
//   it. C2 and R2 store a counter with every rank, each by another thread. Their release covers the data of all
//   threads, because a barrier precedes it. The rank's own copy of `contributed` counts chunks for its next operation.
//   A rank does all waits and stores even if it does not contribute to a chunk, reduce it or need it. So the order is
//   the same for every collective. A rank's order is C(c), R(c-1), G(c-2), C(c+1), ... Once every rank's `reduced` has
//   passed c - 3 (G), contribution c may overwrite c - 4. Once every rank's `contributed` has reached c (R), result c
//   may overwrite c - 4, because all ranks are past G(c-3). The same holds for each column, since its only reader also
//   stores counters with its writer, even without a part in the chunk (tests/gpu/chunk_model_test.cpp). After a rank's
//   last G, its place has all that peers store for the operation; they may store for the next one. Each channel counts
//   its chunks through the communicator's life, modulo 2^32. No rank is more than three chunks ahead of another.
//
// shared    B1 store the window, relaxed; add 1 to arrived, acquire and release
//           B2 load arrived, acquire, until all have arrived; read the windows of all ranks
//           B3 reduce or copy this rank's part, from all or one send into all or one recv (load_store_shared.h); plain
//           B4 a barrier; add 1 to left, acquire and release
//           B5 load left, acquire, until all have left
//   No rank touches a peer's buffer before all have arrived, or after all have left. A rank that gives up before all
//   have arrived takes its arrival back and closes the gate, in one exchange. After that no rank ever passes the gate.
//   A rank that has passed the gate waits only in B5. All other ranks have arrived, so they pass and leave, too: B5
//   completes without giving up. Hence no rank touches a buffer after the kernel of the buffer's owner has ended.
//   On several devices, however, a rank may be lost together with its kernel. B3 takes milliseconds. So if a kernel
//   still waits seconds after a failure, the host reports the loss to the kernel, and its B5 ends.
//   After B2 a rank may find that it cannot reach a buffer, because the buffer's region was withdrawn. Then it skips
//   B3, and in B4 also adds gate_failed. All ranks stay until all have left, and then each rank has failed.
//   Arrived and left both grow by rank_count in each operation, so they show where the next operation begins.
//   If a rank's window says that other devices cannot read its buffers, all ranks see that after B2. They touch no
//   peer's buffer, and do C, R and G instead of B3. A peer that gives up in C, R or G never leaves. So this rank may
//   give up in B5, as in B2. B4 and B5 are still needed: without them, a rank without elements could store its next
//   window before a peer has read this one.
//   If ranks are in several processes, a window says which region of its owner holds a buffer, and at which offset.
//   Each rank has a table of its addresses of all ranks' regions (cuda/transport/regions.h).
// Abort     A block that gave up stores no more flags and counters, and neither does any later kernel. In a one_shot
//           the other blocks of the kernel still post.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/host_device.h"
#include "src/proto/connection.h"

namespace rondo::device {

/// The most ranks that can have places.
inline constexpr uint32_t load_store_rank_count_max = 64;
/// The areas that the chunks of a channel use in turn. Three would suffice, but a power of two lets counters wrap.
inline constexpr uint32_t load_store_area_count = 4;

/// The most ranks that push.
inline constexpr uint32_t push_rank_count_max = 16;

inline constexpr uint32_t words_per_line = cache_line_bytes / sizeof(uint64_t);

/// The areas that the chunks of a channel use in turn.
struct ChunkAreas {
  size_t first;  ///< offset in a place
  size_t bytes;  ///< of an area

  [[nodiscard]] RONDO_HD size_t at(uint32_t chunk) const { return first + chunk % load_store_area_count * bytes; }
  /// Returns the areas of a channel, if these are the areas of channel 0.
  [[nodiscard]] RONDO_HD ChunkAreas behind(uint32_t channel) const {
    return {first + size_t{channel} * load_store_area_count * bytes, bytes};
  }
};

struct LoadStoreGeometry {
  uint32_t rank_count = 0;  ///< 0 means that there are no places
  uint32_t channel_count = 0;
  uint32_t post_bytes = 0;   ///< largest one_shot, a multiple of 64
  uint32_t chunk_bytes = 0;  ///< largest chunk of a channel, over all blocks of data; a multiple of 64
  uint32_t pushes = 0;       ///< 1: ranks push

  [[nodiscard]] RONDO_HD size_t units_offset() const { return 3 * size_t{channel_count} * cache_line_bytes; }
  /// Returns the size of one post of one rank.
  [[nodiscard]] RONDO_HD size_t column_bytes() const { return 2 * size_t{post_bytes}; }
  /// Returns the size of one of the two post areas.
  [[nodiscard]] RONDO_HD size_t area_bytes() const { return column_bytes() * (pushes != 0 ? rank_count : 1); }
  /// Returns the size of a channel's counters of one kind.
  [[nodiscard]] RONDO_HD size_t counter_bytes() const {
    return pushes != 0 ? (rank_count + words_per_line - 1) / words_per_line * cache_line_bytes : cache_line_bytes;
  }
  /// Returns the size of a column: of the result of a part, and if ranks push, of the contribution to a part.
  [[nodiscard]] RONDO_HD size_t result_bytes() const {
    return (size_t{chunk_bytes} / rank_count + cache_line_bytes) / cache_line_bytes * cache_line_bytes;
  }
  [[nodiscard]] RONDO_HD size_t bytes() const { return rank_count == 0 ? 0 : results(channel_count).first; }

  // These functions return offsets in a place.
  [[nodiscard]] RONDO_HD size_t units_at(uint64_t number, uint32_t by) const {
    return units_offset() + number % 2 * area_bytes() + (pushes != 0 ? by : 0) * column_bytes();
  }
  [[nodiscard]] RONDO_HD size_t contributed_at(uint32_t channel) const {
    return units_offset() + 2 * area_bytes() + channel * counter_bytes();
  }
  [[nodiscard]] RONDO_HD size_t reduced_at(uint32_t channel) const { return contributed_at(channel_count + channel); }
  [[nodiscard]] RONDO_HD ChunkAreas contributions(uint32_t channel) const {
    const size_t bytes = pushes != 0 ? (rank_count - 1) * result_bytes() : chunk_bytes;
    return ChunkAreas{reduced_at(channel_count), bytes}.behind(channel);
  }
  [[nodiscard]] RONDO_HD ChunkAreas results(uint32_t channel) const {
    const size_t bytes = (pushes != 0 ? rank_count - 1 : 1) * result_bytes();
    return ChunkAreas{contributions(channel_count).first, bytes}.behind(channel);
  }

  bool operator==(const LoadStoreGeometry &) const = default;
};

/// The most regions of a rank.
inline constexpr uint32_t region_count_max = 64;
inline constexpr uint32_t region_shift = 48;  ///< of a region's index, in the bits above the offset
[[nodiscard]] RONDO_HD constexpr uint64_t region_address(uint32_t region, uint64_t offset) {
  return uint64_t{region} << region_shift | offset;
}

/// The buffers of a rank in an operation: addresses, or values of region_address().
struct alignas(cache_line_bytes) LoadStoreWindow {
  uint64_t send = 0;
  uint64_t recv = 0;
  uint64_t signature = 0;  ///< signature, and above it whether peers can read the buffers: load_store_window()
};
static_assert(sizeof(LoadStoreWindow) == cache_line_bytes);

/// The word of a gate has three counts: all arrivals, the arrivals of ranks that did not do their part, and the ranks
/// that have closed the gate.
inline constexpr uint64_t gate_failed = uint64_t{1} << 48, gate_closed = uint64_t{1} << 56;

/// A view of a rank's place. The place has the same bytes at different addresses for different ranks.
struct LoadStorePlace {
  std::byte *base = nullptr;  ///< 64-byte aligned; fresh memory is zero
  LoadStoreGeometry geometry;

  [[nodiscard]] RONDO_HD LoadStoreWindow &window(uint32_t channel) const {
    return reinterpret_cast<LoadStoreWindow *>(base)[channel];
  }
  /// Returns the word of a gate. All ranks use the gates in rank 0's place.
  [[nodiscard]] RONDO_HD uint64_t &arrived(uint32_t channel) const {
    return line(uint64_t{geometry.channel_count} + channel);
  }
  [[nodiscard]] RONDO_HD uint64_t &left(uint32_t channel) const {
    return line(2 * uint64_t{geometry.channel_count} + channel);
  }
  // These functions return what rank `by` has stored. If ranks do not push, `by` must be the owner. `at` is the offset
  // of a channel's counters.
  [[nodiscard]] RONDO_HD uint64_t &counter(size_t at, uint32_t by) const {
    return reinterpret_cast<uint64_t *>(base + at)[geometry.pushes != 0 ? by : 0];
  }
  [[nodiscard]] RONDO_HD uint64_t *units(uint64_t number, uint32_t by) const {
    return reinterpret_cast<uint64_t *>(base + geometry.units_at(number, by));
  }

 private:
  [[nodiscard]] RONDO_HD uint64_t &line(uint64_t index) const {
    return reinterpret_cast<PaddedCounter *>(base)[index].value;
  }
};

/// The flags of the two units of each word of a post. The low half of a flag has a half of the signature. The high half
/// has the number. It is never 0, because fresh memory is stale.
struct PostFlags {
  uint32_t first;
  uint32_t second;
};
[[nodiscard]] RONDO_HD constexpr PostFlags post_flags(uint64_t number, uint32_t signature) {
  const uint32_t high = static_cast<uint32_t>(number) << 17 | 1u << 16;
  return {high | (signature & 0xFFFF), high | signature >> 16};
}
/// Says whether `flag` is of another operation's post with the same number as `expected`.
[[nodiscard]] RONDO_HD constexpr bool is_foreign_flag(uint32_t flag, uint32_t expected) {
  return flag != expected && (flag ^ expected) >> 16 == 0;
}
/// The number of posts in which a rank clears its areas once. Flags repeat after twice as many. So an area is cleared
/// at least once between two equal flags.
inline constexpr uint64_t post_sweep_period = uint64_t{1} << 14;
static_assert(post_flags(1, 0).first == post_flags(1 + 2 * post_sweep_period, 0).first);
static_assert(post_flags(1, 0).first != post_flags(1 + post_sweep_period, 0).first);

// A counter of chunks has the count in its high half. Its low half is the operation's signature for `contributed`, and
// 0 for `reduced`.
[[nodiscard]] RONDO_HD constexpr uint64_t load_store_counter(uint32_t count, uint32_t signature) {
  return uint64_t{count} << 32 | signature;
}
[[nodiscard]] RONDO_HD constexpr uint32_t load_store_count_in(uint64_t counter) {
  return static_cast<uint32_t>(counter >> 32);
}
[[nodiscard]] RONDO_HD constexpr uint32_t load_store_signature_in(uint64_t counter) {
  return static_cast<uint32_t>(counter);
}
// The signature of a window has the operation's signature in its low half. Above that it says whether the kernels of
// all ranks can read and write the buffers.
[[nodiscard]] RONDO_HD constexpr uint64_t load_store_window(uint32_t signature, bool can_be_read) {
  return uint64_t{can_be_read} << 32 | signature;
}
[[nodiscard]] RONDO_HD constexpr bool load_store_can_be_read(uint64_t window) { return window >> 32 != 0; }
/// Says whether the counter has reached or passed `count`.
[[nodiscard]] RONDO_HD constexpr bool load_store_has_come(uint64_t counter, uint32_t count) {
  return static_cast<int32_t>(load_store_count_in(counter) - count) >= 0;
}

}  // namespace rondo::device
