// SPDX-License-Identifier: Apache-2.0
// Items of random programs may be collectives that exchange blocks. This file has a rank's call for such an item, and
// the data that the rank must receive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rondo/rondo.h"
#include "tests/message_program.h"

namespace rondo_test {

/// The part of one rank in an item whose `exchange` is not none. Blocks are counted in bytes.
class ExchangeCall {
 public:
  ExchangeCall(const Item &item, uint32_t rank, uint32_t rank_count)
      : item_(item), rank_(rank), rank_count_(rank_count), root_(static_cast<uint32_t>(item.seed % rank_count)) {}

  /// Fills `out`, makes room in `in`, and makes the call.
  rondo_status_t run(std::vector<std::byte> &out, std::vector<std::byte> &in, rondo_comm_t comm,
                     rondo_stream_t stream) const {
    out = sent();
    in.assign(received().size(), std::byte{0});
    if (item_.exchange == Exchange::all_to_all_in_place) in = out;
    return call(out.empty() ? nullptr : out.data(), in.empty() ? nullptr : in.data(), comm, stream);
  }

  /// Makes the call with buffers that contain sent() and have room for received(). A call in place has one such buffer.
  rondo_status_t call(const void *send, void *recv, rondo_comm_t comm, rondo_stream_t stream) const {
    const int root = static_cast<int>(root_);
    const std::vector<size_t> to = sizes(true), from = sizes(false);
    switch (item_.exchange) {
      case Exchange::none: break;
      case Exchange::all_to_all: return rondo_all_to_all(send, recv, item_.bytes, RONDO_INT8, comm, stream);
      case Exchange::all_to_all_in_place:
        return rondo_all_to_all(recv, recv, item_.bytes, RONDO_INT8, comm, stream);
      case Exchange::gather: return rondo_gather(send, recv, item_.bytes, RONDO_INT8, root, comm, stream);
      case Exchange::scatter: return rondo_scatter(send, recv, item_.bytes, RONDO_INT8, root, comm, stream);
      case Exchange::all_to_all_v:
        return rondo_all_to_all_v(send, to.data(), nullptr, recv, from.data(), nullptr, RONDO_INT8, comm, stream);
      case Exchange::gather_v:
        return rondo_gather_v(send, to[root_], recv, from.data(), nullptr, RONDO_INT8, root, comm, stream);
      case Exchange::scatter_v:
        return rondo_scatter_v(send, to.data(), nullptr, recv, from[root_], RONDO_INT8, root, comm, stream);
    }
    return RONDO_ERROR_INTERNAL;
  }

  [[nodiscard]] std::vector<std::byte> sent() const { return blocks(true); }
  [[nodiscard]] std::vector<std::byte> received() const { return blocks(false); }
  [[nodiscard]] bool right(const std::vector<std::byte> &in) const { return in == blocks(false); }

 private:
  [[nodiscard]] bool gathers() const {
    return item_.exchange == Exchange::gather || item_.exchange == Exchange::gather_v;
  }
  [[nodiscard]] bool scatters() const {
    return item_.exchange == Exchange::scatter || item_.exchange == Exchange::scatter_v;
  }
  [[nodiscard]] uint64_t seed_of(uint32_t from, uint32_t to) const { return item_.seed + from * 1'000'003u + to * 7u; }

  /// Returns the size of the block from one rank to another, or 0 if there is no such block.
  [[nodiscard]] size_t size_of(uint32_t from, uint32_t to) const {
    if ((gathers() && to != root_) || (scatters() && from != root_)) return 0;
    const bool uneven = item_.exchange == Exchange::all_to_all_v || item_.exchange == Exchange::gather_v ||
                        item_.exchange == Exchange::scatter_v;
    if (!uneven) return item_.bytes;
    return seed_of(from, to) % 3 == 0 ? 0 : seed_of(from, to) % (2 * item_.bytes + 1);
  }
  /// Returns the sizes of the blocks that this rank sends or receives, by rank.
  [[nodiscard]] std::vector<size_t> sizes(bool sends) const {
    std::vector<size_t> sizes;
    for (uint32_t peer = 0; peer < rank_count_; ++peer)
      sizes.push_back(sends ? size_of(rank_, peer) : size_of(peer, rank_));
    return sizes;
  }
  [[nodiscard]] std::vector<std::byte> blocks(bool sends) const {
    std::vector<std::byte> all;
    for (uint32_t peer = 0; peer < rank_count_; ++peer) {
      Item block;
      block.bytes = sends ? size_of(rank_, peer) : size_of(peer, rank_);
      block.seed = sends ? seed_of(rank_, peer) : seed_of(peer, rank_);
      const std::vector<std::byte> bytes = contents_of(block);
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  }

  const Item &item_;
  const uint32_t rank_, rank_count_, root_;
};

}  // namespace rondo_test
