// SPDX-License-Identifier: Apache-2.0
// This file makes random programs of puts, signals and waits, and knows what windows must contain after them. All ranks
// make the same program from the seed. In each round, random ranks write pieces of the windows. Then every rank waits
// for the signals of all pieces of its window, and compares all bytes with the model.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "rondo/rondo.h"

namespace rondo_test {

/// The memory of windows and of sources. The defaults are for host memory.
struct WindowMemory {
  std::function<void(void *, const void *, size_t)> write = [](void *to, const void *from, size_t bytes) {
    std::memcpy(to, from, bytes);
  };
  std::function<void(void *, const void *, size_t)> read = write;
  /// Waits for the stream of the rank.
  std::function<rondo_status_t()> synchronize = [] { return RONDO_OK; };
};

/// A piece of the window of rank `to`. Rank `from` writes it.
struct WindowPiece {
  uint32_t from = 0, to = 0, signal = 0;
  size_t offset = 0, bytes = 0;
  bool is_signal = false;  ///< only rondo_signal(), without bytes
};

class WindowProgram {
 public:
  WindowProgram(uint64_t seed, uint32_t rank_count) : random_(seed), seed_(seed), rank_count_(rank_count) {
    window_bytes_ = size_t{1} << between(3, 17);
    round_count_ = between(1, 4);
  }

  [[nodiscard]] size_t window_bytes() const { return window_bytes_; }

  /// Runs the part of one rank. `window` is a window over `own`, of window_bytes() on every rank, and `source` has the
  /// same size. Returns RONDO_ERROR_INTERNAL if a byte is wrong.
  rondo_status_t run(uint32_t rank, rondo_comm_t comm, rondo_stream_t stream, rondo_window_t window, std::byte *own,
                     std::byte *source, const WindowMemory &memory) {
    std::vector<std::byte> expected(window_bytes_), seen(window_bytes_);
    memory.write(own, expected.data(), window_bytes_);
    // No rank may write into a window before the window's owner has cleared it.
    if (const auto all = rondo_barrier(comm, stream); all != RONDO_OK) return all;
    std::mt19937_64 local(seed_ ^ (rank + 1) * 0x9E37'79B9'7F4A'7C15u);
    for (uint32_t round = 0; round < round_count_; ++round) {
      const std::vector<WindowPiece> pieces = make_round();
      const bool ends_by_signals = between(0, 1) == 1;
      for (const WindowPiece &piece : pieces)
        if (piece.to == rank) fill(expected.data(), piece, round);
      if (const auto done = run_round(rank, round, pieces, comm, stream, window, source, memory, local);
          done != RONDO_OK)
        return done;
      if (const auto done = memory.synchronize(); done != RONDO_OK) return done;
      memory.read(seen.data(), own, window_bytes_);
      if (seen != expected) return RONDO_ERROR_INTERNAL;
      if (const auto done = end_round(ends_by_signals, comm, stream); done != RONDO_OK) return done;
      if (const auto done = memory.synchronize(); done != RONDO_OK) return done;
    }
    return RONDO_OK;
  }

 private:
  uint32_t between(uint32_t low, uint32_t high) {
    return low + static_cast<uint32_t>(random_() % (uint64_t{high} - low + 1));
  }
  std::vector<WindowPiece> make_round() {
    std::vector<WindowPiece> pieces;
    for (uint32_t to = 0; to < rank_count_; ++to)
      for (size_t at = 0; at < window_bytes_;) {
        const size_t rest = window_bytes_ - at;
        const size_t bytes = std::min<size_t>(rest, between(0, static_cast<uint32_t>(window_bytes_)));
        if (between(0, 3) != 0)  // otherwise no rank writes these bytes
          pieces.push_back(
              {between(0, rank_count_ - 1), to, between(0, 3), at, bytes, bytes == 0 && between(0, 1) == 1});
        at += std::max<size_t>(bytes, 1);
      }
    return pieces;
  }
  void fill(std::byte *window, const WindowPiece &piece, uint32_t round) const {
    for (size_t at = piece.offset; at < piece.offset + piece.bytes; ++at)
      window[at] = static_cast<std::byte>(seed_ * 7 + round * 31 + piece.from * 5 + piece.to * 3 + at * 13 + (at >> 8));
  }

  rondo_status_t put(const WindowPiece &piece, rondo_comm_t comm, rondo_stream_t stream, rondo_window_t window,
                     const std::byte *source) const {
    const int to = static_cast<int>(piece.to);
    if (piece.is_signal) return rondo_signal(to, piece.signal, comm, stream);
    return rondo_put_signal(source, piece.bytes, to, window, piece.offset, piece.signal, comm, stream);
  }

  /// Makes the calls of a round in a random order, some of them in groups.
  rondo_status_t run_round(uint32_t rank, uint32_t round, const std::vector<WindowPiece> &pieces, rondo_comm_t comm,
                           rondo_stream_t stream, rondo_window_t window, std::byte *source, const WindowMemory &memory,
                           std::mt19937_64 &local) const {
    std::vector<std::function<rondo_status_t()>> puts, waits;
    size_t used = 0;
    std::vector<uint64_t> counts(size_t{rank_count_} * 4);
    for (const WindowPiece &piece : pieces) {
      if (piece.to == rank) ++counts[piece.from * 4 + piece.signal];
      if (piece.from != rank) continue;
      if (used + piece.bytes > window_bytes_) {  // the source is full, so earlier puts must end before it is reused
        for (const auto &call : puts)
          if (const auto done = call(); done != RONDO_OK) return done;
        if (const auto done = memory.synchronize(); done != RONDO_OK) return done;
        puts.clear();
        used = 0;
      }
      std::vector<std::byte> window_content(window_bytes_);
      fill(window_content.data(), piece, round);
      memory.write(source + used, window_content.data() + piece.offset, piece.bytes);
      puts.push_back([this, piece, comm, stream, window, at = source + used] {
        return put(piece, comm, stream, window, at);
      });
      used += piece.bytes;
    }
    std::shuffle(puts.begin(), puts.end(), local);
    for (uint32_t from = 0; from < rank_count_; ++from)
      for (uint32_t signal = 0; signal < 4; ++signal)
        for (uint64_t left = counts[from * 4 + signal]; left != 0;) {
          const uint64_t count = 1 + local() % left;
          waits.push_back([=] { return rondo_wait_signal(static_cast<int>(from), signal, count, comm, stream); });
          left -= count;
        }
    std::shuffle(waits.begin(), waits.end(), local);
    if (local() % 3 == 0) {  // all in one group, in which waits may come before puts
      std::vector<std::function<rondo_status_t()>> all = puts;
      all.insert(all.end(), waits.begin(), waits.end());
      std::shuffle(all.begin(), all.end(), local);
      if (const auto begun = rondo_group_begin(); begun != RONDO_OK) return begun;
      for (const auto &call : all)
        if (const auto done = call(); done != RONDO_OK) return done;
      return rondo_group_end();
    }
    puts.insert(puts.end(), waits.begin(), waits.end());
    for (const auto &call : puts)
      if (const auto done = call(); done != RONDO_OK) return done;
    return RONDO_OK;
  }

  /// Waits until all ranks have compared their windows.
  rondo_status_t end_round(bool by_signals, rondo_comm_t comm, rondo_stream_t stream) const {
    if (!by_signals) return rondo_barrier(comm, stream);
    for (uint32_t peer = 0; peer < rank_count_; ++peer)
      if (const auto done = rondo_signal(static_cast<int>(peer), RONDO_SIGNAL_COUNT - 1, comm, stream);
          done != RONDO_OK)
        return done;
    for (uint32_t peer = 0; peer < rank_count_; ++peer)
      if (const auto done = rondo_wait_signal(static_cast<int>(peer), RONDO_SIGNAL_COUNT - 1, 1, comm, stream);
          done != RONDO_OK)
        return done;
    return RONDO_OK;
  }

  std::mt19937_64 random_;
  const uint64_t seed_;
  const uint32_t rank_count_;
  size_t window_bytes_ = 0;
  uint32_t round_count_ = 0;
};

}  // namespace rondo_test
