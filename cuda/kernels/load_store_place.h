// SPDX-License-Identifier: Apache-2.0
// load_store on devices has no connections. Every rank has one place, memory of its segment that all ranks map. It
// writes its contribution there once, and all the others read it. An all-reduce may do so by one_shot, and every
// collective as two_shot does. Ranks that can read and write each other's buffers need no copy of their contributions
// (`shared`).
//
// Layout    of a place. Offsets are multiples of 64. A rank writes each line of its own place alone; only the gates of
//           rank 0 are written by all:
//             headers         2 * channel_count lines: of the even and the odd posts, one a channel
//             counters        2 * channel_count lines: contributed and reduced of each channel
//             windows         channel_count lines: where the rank's buffers are, and its operation's signature
//             gates           2 * channel_count lines: arrived and left of each channel
//             post areas      2 * 2 * post_bytes: a unit of 8 bytes for each 4 of payload, as with ll
//             contributions   channel_count * load_store_area_count * chunk_bytes   what others are to make results of
//             results         channel_count * load_store_area_count * result_bytes  the part that this rank made
//           A channel has the same share of the vector on all ranks; channels do not wait for each other.
// one_shot  A1 load told_verdict and the number of posts, relaxed, by each thread; it does what follows where no kernel
//              before this one failed
//           P2 store header = (signature, flag), release    P1 store the units of the payload, relaxed
//           W1 load all units, relaxed, until they have the flag
//           W2 load the others' headers, acquire, until they have the flag
//   Units bring their own flags, so the header waits for none of them and is stored first. It says whose post it is,
//   and orders what callers did before and after. Among threads on one device both are relaxed: ends of kernels order
//   that.
//   Posts n and n + 2 share an area. A rank writes n + 2 in a kernel after the one that saw a header n + 1 of each
//   other rank. The others wrote n + 1 in a kernel after the one that read all of n. So no credit is needed, whatever
//   operations lie between, and however many channels each has. Posts are counted through the communicator's life. The
//   flag of n is ll::flag_of(n), so the writer clears what a post leaves of its area once in 2^30 posts.
//   No barrier comes before the post. After a kernel that failed all threads see told_verdict, as that kernel has
//   ended, and post nothing. `verdict` would not do. Another block of this kernel, or a thread of this block that has
//   met a fault, may set it between the reads of two threads. One of them would then not post what peers wait for, and
//   the peers would not see that this rank is in another operation. The vote after W1 and W2 comes before thread 0
//   reports, so each thread has both words before they change.
//
// two_shot  C1 write chunk c's contribution, plain          C2 store contributed = (c + 1, signature), release
//           R1 load everybody's contributed, acquire, until c + 1; read; write the own part's result
//           R2 store reduced = c + 1, release
//           G1 load everybody's reduced, acquire, until c + 1; read the results
//   A rank also waits and stores all of this if it contributes, reduces or wants nothing of a chunk, so the order is
//   the same for every collective. In a rank it is C(c), R(c-1), G(c-2), C(c+1), ... Once every rank's reduced has
//   passed c - 3 (G), contribution c may overwrite c - 4. Once every rank's contributed has reached c (R), result c may
//   do so: all ranks are past G(c-3). Chunks are counted for each channel through the communicator's life, modulo 2^32.
//   No rank is more than three chunks ahead of another.
//
// shared    B1 store the window, relaxed; add 1 to arrived, acquire and release
//           B2 load arrived, acquire, until all have arrived; read everybody's window
//           B3 reduce or copy the own part: of all sends or one, into all recvs or one (load_store_shared.h); plain
//           B4 a barrier; add 1 to left, acquire and release
//           B5 load left, acquire, until all have left
//   No rank touches a peer's buffer before all have arrived, nor after all have left. A rank that gives up before all
//   have arrived takes its arrival back and closes the gate, in one exchange. After that no rank ever gets through it.
//   A rank that is through the gate waits only for B5. All others are through it, too, so B5 completes and the rank
//   does not give up. Hence no buffer is touched any more when the kernel of its owner has ended.
//   On several devices, however, a rank may be gone with its kernel. If a kernel has waited in vain for seconds since a
//   failure, of which B3 takes milliseconds, the host reports the loss to it, and its B5 ends. A rank may find after B2
//   that it cannot reach a buffer, whose region was withdrawn. It then skips B3 and adds gate_failed at B4, too. All
//   ranks stay until all have left, and then each has failed.
//   Both counts grow by rank_count with each operation, so they themselves show where the next one stands.
//   If a rank's window says that other devices cannot read its buffers, all ranks see that after B2. They touch no
//   peer's buffer, and do C, R and G in place of B3. B5 can be in vain then, and ends like B2: a peer that gave up
//   before never leaves. Without B4 and B5 a rank without elements could store its next window before a peer has read
//   this one.
//   If ranks are in several processes, a window says which of its owner's regions holds a buffer, and where. Each rank
//   has a table of where it sees all regions of all ranks (cuda/transport/regions.h).
// Abort     a block that gave up stores no flag or counter again, nor does any kernel after its own. Other blocks of a
//           one_shot still post.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/host_device.h"
#include "src/proto/connection.h"

namespace rondo::device {

/// The most ranks that have places.
inline constexpr uint32_t load_store_rank_count_max = 64;
/// Areas that the chunks of a channel take in turn. A power of two lets counters wrap; three would do.
inline constexpr uint32_t load_store_area_count = 4;

struct LoadStoreGeometry {
  uint32_t rank_count = 0;  ///< 0: there are no places
  uint32_t channel_count = 0;
  uint32_t post_bytes = 0;   ///< most of a one_shot, a multiple of 64
  uint32_t chunk_bytes = 0;  ///< most of a channel's chunk, of all blocks where there are blocks; a multiple of 64

  [[nodiscard]] RONDO_HD size_t counters_offset() const { return 2 * size_t{channel_count} * cache_line_bytes; }
  [[nodiscard]] RONDO_HD size_t units_offset() const { return (2 + 2 + 3) * size_t{channel_count} * cache_line_bytes; }
  /// Returns the size of one of the two post areas.
  [[nodiscard]] RONDO_HD size_t area_bytes() const { return 2 * size_t{post_bytes}; }
  [[nodiscard]] RONDO_HD size_t contributions_offset() const { return units_offset() + 2 * area_bytes(); }
  [[nodiscard]] RONDO_HD size_t results_offset() const {
    return contributions_offset() + size_t{channel_count} * load_store_area_count * chunk_bytes;
  }
  [[nodiscard]] RONDO_HD size_t result_bytes() const {
    return (size_t{chunk_bytes} / rank_count + cache_line_bytes) / cache_line_bytes * cache_line_bytes;
  }
  [[nodiscard]] RONDO_HD size_t bytes() const {
    if (rank_count == 0) return 0;
    return results_offset() + size_t{channel_count} * load_store_area_count * result_bytes();
  }

  // The functions return offsets of things in a place.
  [[nodiscard]] RONDO_HD size_t units_at(uint64_t number) const { return units_offset() + number % 2 * area_bytes(); }
  [[nodiscard]] RONDO_HD size_t contribution_at(uint32_t channel, uint32_t chunk) const {
    return contributions_offset() +
           (size_t{channel} * load_store_area_count + chunk % load_store_area_count) * chunk_bytes;
  }
  [[nodiscard]] RONDO_HD size_t result_at(uint32_t channel, uint32_t chunk) const {
    return results_offset() +
           (size_t{channel} * load_store_area_count + chunk % load_store_area_count) * result_bytes();
  }

  bool operator==(const LoadStoreGeometry &) const = default;
};

/// Most regions that a rank has.
inline constexpr uint32_t region_count_max = 64;
inline constexpr uint32_t region_shift = 48;  ///< of an index, above an offset
[[nodiscard]] RONDO_HD constexpr uint64_t region_address(uint32_t region, uint64_t offset) {
  return uint64_t{region} << region_shift | offset;
}

/// Holds the buffers of a rank in an operation: addresses, or region_address().
struct alignas(cache_line_bytes) LoadStoreWindow {
  uint64_t send = 0;
  uint64_t recv = 0;
  uint64_t signature = 0;  ///< and above it, whether peers can read the buffers: load_store_window()
};
static_assert(sizeof(LoadStoreWindow) == cache_line_bytes);

/// A gate's word has three counts: the ranks that have arrived, those that arrived without their part, and those that
/// have closed the gate.
inline constexpr uint64_t gate_failed = uint64_t{1} << 48, gate_closed = uint64_t{1} << 56;

/// A rank's place as some rank sees it: the same bytes, mapped anywhere.
struct LoadStorePlace {
  std::byte *base = nullptr;  ///< 64-byte aligned; fresh memory is zero
  LoadStoreGeometry geometry;

  [[nodiscard]] RONDO_HD uint64_t &header(uint64_t number, uint32_t channel) const {
    return line(number % 2 * geometry.channel_count + channel);
  }
  [[nodiscard]] RONDO_HD uint64_t &contributed(uint32_t channel) const {
    return line(2 * uint64_t{geometry.channel_count} + channel);
  }
  [[nodiscard]] RONDO_HD uint64_t &reduced(uint32_t channel) const {
    return line(3 * uint64_t{geometry.channel_count} + channel);
  }
  [[nodiscard]] RONDO_HD LoadStoreWindow &window(uint32_t channel) const {
    return reinterpret_cast<LoadStoreWindow *>(base)[4 * uint64_t{geometry.channel_count} + channel];
  }
  /// Returns a gate's word. All ranks use the gates in rank 0's place.
  [[nodiscard]] RONDO_HD uint64_t &arrived(uint32_t channel) const {
    return line(5 * uint64_t{geometry.channel_count} + channel);
  }
  [[nodiscard]] RONDO_HD uint64_t &left(uint32_t channel) const {
    return line(6 * uint64_t{geometry.channel_count} + channel);
  }
  [[nodiscard]] RONDO_HD uint64_t *units(uint64_t number) const {
    return reinterpret_cast<uint64_t *>(base + geometry.units_at(number));
  }

 private:
  [[nodiscard]] RONDO_HD uint64_t &line(uint64_t index) const {
    return reinterpret_cast<PaddedCounter *>(base)[index].value;
  }
};

// A counter of chunks has the count in its high half. Its low half has the operation's signature (contributed), or 0.
[[nodiscard]] RONDO_HD constexpr uint64_t load_store_counter(uint32_t count, uint32_t signature) {
  return uint64_t{count} << 32 | signature;
}
[[nodiscard]] RONDO_HD constexpr uint32_t load_store_count_in(uint64_t counter) {
  return static_cast<uint32_t>(counter >> 32);
}
[[nodiscard]] RONDO_HD constexpr uint32_t load_store_signature_in(uint64_t counter) {
  return static_cast<uint32_t>(counter);
}
// A window also has the operation's signature in the low half of a word. Above that it says whether the kernels of all
// ranks can read and write the buffers.
[[nodiscard]] RONDO_HD constexpr uint64_t load_store_window(uint32_t signature, bool can_be_read) {
  return uint64_t{can_be_read} << 32 | signature;
}
[[nodiscard]] RONDO_HD constexpr bool load_store_can_be_read(uint64_t window) { return window >> 32 != 0; }
/// Returns whether the counter has reached `count` or passed it.
[[nodiscard]] RONDO_HD constexpr bool load_store_has_come(uint64_t counter, uint32_t count) {
  return static_cast<int32_t>(load_store_count_in(counter) - count) >= 0;
}

}  // namespace rondo::device
