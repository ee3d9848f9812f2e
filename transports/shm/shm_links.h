// SPDX-License-Identifier: Apache-2.0
// This file implements the links of a rank in the segment that all ranks of its host map.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "src/base/clock.h"
#include "src/proto/memory.h"
#include "src/links/links.h"
#include "transports/shm/peers.h"

namespace rondo::shm {

class ShmLinks final : public Links {
 public:
  /// `readable_kinds` and `reachable_kinds` have, by rank, the results of the functions of Links with these names.
  ShmLinks(std::shared_ptr<Segment> segment, ShmPeers &peers, uint32_t rank, std::vector<uint32_t> readable_kinds,
           std::vector<uint32_t> reachable_kinds)
      : segment_(std::move(segment)),
        peers_(peers),
        rank_(rank),
        own_(segment_->board(rank)),
        readable_kinds_(std::move(readable_kinds)),
        reachable_kinds_(std::move(reachable_kinds)),
        has_neighbours_(std::any_of(readable_kinds_.begin(), readable_kinds_.end(), by_address)) {}

  ConnectionGeometry geometry() const override { return segment_->shape().geometry; }
  uint32_t channel_count() const override { return segment_->shape().channel_count; }
  ConnectionView outgoing(uint32_t channel, uint32_t peer) const override {
    return segment_->connection(channel, rank_, peer);
  }
  ConnectionView incoming(uint32_t channel, uint32_t peer) const override {
    return segment_->connection(channel, peer, rank_);
  }
  bool carries_messages() const override { return true; }
  Result<void> open_messages() override { return segment_->open_messages(); }
  ConnectionView outgoing_messages(uint32_t peer) const override { return segment_->message_connection(rank_, peer); }
  ConnectionView incoming_messages(uint32_t peer) const override { return segment_->message_connection(peer, rank_); }
  bool has_signals() const override { return true; }
  uint64_t *signals(uint32_t from, uint32_t to) const override { return segment_->signals(from, to); }
  SignalFile signal_file() const override {
    const SegmentShape &shape = segment_->shape();
    return {segment_->descriptor(), shape.bytes() + shape.signals_offset(),
            shape.message_bytes() - shape.signals_offset()};
  }
  Result<std::shared_ptr<const RemoteMemory>> open_memory(uint32_t peer, const MemoryPlace &place) const override {
    return open_remote_memory(peers_.owner_of(peer, reachable_kinds_[peer]), place);
  }
  ExchangeView exchange() const override { return segment_->exchange(); }
  uint32_t readable_kinds(uint32_t peer) const override { return readable_kinds_[peer]; }
  uint32_t reachable_kinds(uint32_t peer) const override { return reachable_kinds_[peer]; }
  PeerAccess &peers() override { return peers_; }

  void set_running(bool running) override {
    if (!has_neighbours_)
      return;  // no peer shares this process, so none reads this rank's buffers by address
    if (running)
      memory::store_sync(own_.running, 1);  // pairs with load_sync in wait_for_readers()
    else
      memory::store_release(own_.running, 0);  // pairs with wait_for_readers(), too
  }
  void wait_for_readers() const override {
    // A peer sees this rank's failure before it reads buffers, or this rank sees the peer's flag (docs/protocols.md).
    // Other processes read through their own mappings, so only threads of this process are waited for.
    const uint64_t deadline_ns = now_ns() + reader_patience_ns;
    for (uint32_t peer = 0; peer < segment_->shape().rank_count; ++peer) {
      if (peer == rank_ || !by_address(readable_kinds_[peer])) continue;
      while (memory::load_sync(segment_->board(peer).running) != 0 && now_ns() < deadline_ns) yield_core();
    }
  }

  uint64_t shared_bytes() const override { return segment_->mapped_bytes(); }
  Result<uint64_t> used_bytes() const override { return segment_->used_bytes(); }

 private:
  static constexpr uint64_t reader_patience_ns = 1'000'000'000;  // far more than reading a chunk takes

  [[nodiscard]] static bool by_address(uint32_t kinds) { return (kinds & kind_bit(PayloadKind::address)) != 0; }

  const std::shared_ptr<Segment> segment_;
  ShmPeers &peers_;
  const uint32_t rank_;
  RankBoard &own_;
  const std::vector<uint32_t> readable_kinds_;
  const std::vector<uint32_t> reachable_kinds_;
  const bool has_neighbours_;  ///< true if other ranks share this process
};

}  // namespace rondo::shm
