// SPDX-License-Identifier: Apache-2.0
// The exchange is memory that all ranks of a host map. The kernel load_store uses it in place of connections, for
// all-reduce by one_shot, two_shot and ring. Every rank has one place in the exchange. A rank writes its contribution
// there once, and all other ranks read it.
//
// Layout    an ExchangePlace for each rank, then its payloads; offsets are multiples of 64, and a line has one writer
//             posts[2]       flag and up to 56 bytes of payload in one line; longer payloads are in post areas
//             contributed, reduced, gathered   counters of chunks, each alone in its line
//             hops_done      counter of hops of a ring, in a line of its own
//             announcement   digest of a two_shot or ring, and which buffers are exported instead of copied
//             post areas     2 * post_bytes
//             contributions  area_count * chunk_bytes    data that others reduce; chunk c in area c mod area_count
//             results        area_count * result_bytes   the part that this rank reduced
//           An accumulator lies in the area of a contribution. All ranks write it, one after the other.
//
// one_shot  P1 write payload, plain            P2 store flag = number << 32 | digest, release; number counts one_shots
//           W2 load every rank's flag, sync, until it has the number; W1 read all payloads, plain
//   Posts n and n + 2 share an area. A rank writes post n + 2 only after it has seen post n + 1 of every rank. Every
//   rank stores its post n + 1 after reading all posts n. So no credit is needed, even with other operations between.
//
// two_shot  C1 write chunk c's contribution    C2 store contributed = c + 1, release
//           R1 load every rank's contributed, sync, until c + 1; read; write this rank's part of the result
//           R2 store reduced = c + 1, release
//           G1 load every rank's reduced, sync, until c + 1; read the results
//           G2 after the last chunk: store gathered, release; a rank that exported recv waits for every rank's G2
//   Order in a rank: C(c), R(c-1), G(c-2), C(c+1), ... Once every rank's reduced has passed c - 3 (G), contribution c
//   may overwrite contribution c - 3. Once every rank's contributed has reached c (R), result c may overwrite result
//   c - 3, because all ranks are past G(c-3). Chunks are counted through the communicator's life. All ranks agree on
//   operations, so their counts agree.
//
// ring      H1 load the predecessor's hops_done, sync, until c * ranks + h; add to the accumulator of hop h's part
//           H2 store hops_done = c * ranks + h + 1, release (hop h of tile c)   G1, G2 as above, for each complete tile
//   Hop 0 of tile c waits until all ranks have gathered tile c - 3. A two_shot after a ring waits until all ranks have
//   gathered the ring's last tile. A ring after a two_shot need not wait: a rank that has finished the two_shot has
//   seen the last reduced of every rank.
//   All ranks do R1 first, to read the announcements. If all ranks export their buffers, a ring continues as a two_shot
//   does after R1. If two ranks work out of place, each may reduce the whole vector instead, and then do G2.
//
// Abort     After a rank has given up, it stores no flag and no counter. Its peers stop at their own deadlines.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/host_device.h"
#include "src/proto/connection.h"

namespace rondo {

struct alignas(cache_line_bytes) ExchangePost {
  uint64_t flag = 0;  ///< number << 32 | digest
  std::byte payload[cache_line_bytes - sizeof(uint64_t)] = {};
};
static_assert(sizeof(ExchangePost) == cache_line_bytes);

/// A buffer that peers may read where it is: by its address in the same process, or through a mapping in another one.
struct ExportedBuffer {
  uint64_t address = 0;
  uint64_t inode = 0;
  uint64_t region_offset = 0;
  uint64_t region_bytes = 0;
  int32_t descriptor = -1;
  uint32_t region = 0;
  uint64_t exported = 0;  ///< 0 if its contents are copied into the exchange
};

struct alignas(cache_line_bytes) ExchangeAnnouncement {
  uint64_t fingerprint = 0;
  ExportedBuffer send;
  ExportedBuffer recv;
};
static_assert(sizeof(ExchangeAnnouncement) == 2 * cache_line_bytes);

struct ExchangePlace {
  ExchangePost posts[2];
  PaddedCounter contributed;
  PaddedCounter reduced;
  PaddedCounter gathered;
  PaddedCounter hops_done;
  ExchangeAnnouncement announcement;
};
static_assert(sizeof(ExchangePlace) == 8 * cache_line_bytes);

/// The smallest number of areas for contributions and for results; chunks use the areas in turn. The protocol needs
/// three. With more areas, a cache line has left the peers' caches before it is written again.
inline constexpr uint32_t exchange_area_count_min = 3;
/// The number of tiles whose accumulators are in use at a time. It is small, so that accumulators stay in the cache.
inline constexpr uint32_t exchange_accumulator_count = 3;
static_assert(exchange_accumulator_count <= exchange_area_count_min);
/// The most ranks of a host that get an exchange. With more ranks, the areas would be too small, or the memory too
/// large.
inline constexpr uint32_t exchange_rank_count_max = 64;

struct ExchangeGeometry {
  uint32_t rank_count = 0;   ///< 0 if there is no exchange
  uint32_t post_bytes = 0;   ///< most bytes of a one_shot, a multiple of 64
  uint32_t chunk_bytes = 0;  ///< most bytes of a two_shot's chunk or of a ring's part, a multiple of 64
  uint32_t area_count = exchange_area_count_min;

  [[nodiscard]] RONDO_HD size_t result_bytes() const {
    return (size_t{chunk_bytes} / rank_count + cache_line_bytes) / cache_line_bytes * cache_line_bytes;
  }
  [[nodiscard]] RONDO_HD size_t contributions_offset() const { return sizeof(ExchangePlace) + 2 * size_t{post_bytes}; }
  [[nodiscard]] RONDO_HD size_t results_offset() const {
    return contributions_offset() + size_t{area_count} * chunk_bytes;
  }
  /// Returns the bytes of one rank's place, in whole pages.
  [[nodiscard]] RONDO_HD size_t stride() const {
    return (results_offset() + area_count * result_bytes() + 4095) / 4096 * 4096;
  }
  [[nodiscard]] RONDO_HD size_t bytes() const { return rank_count == 0 ? 0 : rank_count * stride(); }

  bool operator==(const ExchangeGeometry &) const = default;
};

/// The exchange as one rank sees it. All ranks see the same bytes, at addresses of their own.
struct ExchangeView {
  std::byte *base = nullptr;  ///< 64-byte aligned; fresh memory is zero
  ExchangeGeometry geometry;

  [[nodiscard]] RONDO_HD ExchangePlace &place(uint32_t rank) const {
    return *reinterpret_cast<ExchangePlace *>(base + rank * geometry.stride());
  }
  [[nodiscard]] RONDO_HD ExchangePost &post(uint32_t rank, uint64_t number) const {
    return place(rank).posts[number % 2];
  }
  /// Returns where the payload of a post of `bytes` bytes lies.
  [[nodiscard]] RONDO_HD std::byte *post_payload(uint32_t rank, uint64_t number, uint64_t bytes) const {
    ExchangePost &line = post(rank, number);
    if (bytes <= sizeof line.payload) return line.payload;
    return base + rank * geometry.stride() + sizeof(ExchangePlace) + number % 2 * geometry.post_bytes;
  }
  [[nodiscard]] RONDO_HD std::byte *contribution(uint32_t rank, uint64_t chunk) const {
    return base + rank * geometry.stride() + geometry.contributions_offset() +
           chunk % geometry.area_count * geometry.chunk_bytes;
  }
  /// Returns where part `owner` of tile `chunk` of a ring is summed.
  [[nodiscard]] RONDO_HD std::byte *accumulator(uint32_t owner, uint64_t chunk) const {
    return contribution(owner, chunk % exchange_accumulator_count);
  }
  [[nodiscard]] RONDO_HD std::byte *result(uint32_t rank, uint64_t chunk) const {
    return base + rank * geometry.stride() + geometry.results_offset() +
           chunk % geometry.area_count * geometry.result_bytes();
  }
};

[[nodiscard]] RONDO_HD constexpr uint64_t post_flag(uint64_t number, uint32_t fingerprint) {
  return number << 32 | fingerprint;
}
/// Returns whether the flag belongs to post `number`, whatever its digest. Before that, the area holds post number - 2.
[[nodiscard]] RONDO_HD constexpr bool is_post(uint64_t flag, uint64_t number) {
  return flag >> 32 == (number & 0xFFFF'FFFFu);
}

}  // namespace rondo
