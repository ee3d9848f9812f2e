// SPDX-License-Identifier: Apache-2.0
// Tests of queues of messages share this file: connections in plain memory, and an observer.
#pragma once

#include <vector>

#include "src/engine/run_transfers.h"
#include "tests/unit/executor_world.h"

namespace rondo_test {

using namespace rondo;

/// The connections of all pairs, with very few small slots.
class Connections {
 public:
  explicit Connections(uint32_t rank_count, const ConnectionGeometry &geometry = {2, 256, 0})
      : geometry_(geometry), rank_count_(rank_count) {
    const size_t stride = (geometry_.bytes() + 63) / 64 * 64;
    memory_.resize(stride * rank_count * rank_count + 64);
    base_ = reinterpret_cast<std::byte *>((reinterpret_cast<uintptr_t>(memory_.data()) + 63) / 64 * 64);
    stride_ = stride;
  }
  [[nodiscard]] std::vector<MessageLinks::Peer> of(uint32_t rank) const {
    std::vector<MessageLinks::Peer> peers;
    for (uint32_t peer = 0; peer < rank_count_; ++peer)
      peers.push_back({view(rank, peer), view(peer, rank), kind_bit(PayloadKind::address)});
    return peers;
  }

 private:
  [[nodiscard]] ConnectionView view(uint32_t from, uint32_t to) const {
    return {base_ + stride_ * (from * rank_count_ + to), geometry_};
  }

  const ConnectionGeometry geometry_;
  const uint32_t rank_count_;
  std::vector<std::byte> memory_;
  std::byte *base_ = nullptr;
  size_t stride_ = 0;
};

/// Exports every other buffer that is not empty, so that its slots are references.
class Exporter final : public TransferObserver {
 public:
  void begin(TransferQueue &queue) override {
    ++begun;
    const bool exports = queue.sends && queue.head().bytes != 0 && queue.head().message % 2 == 0;
    queue.buffers.send.handle.exported = exports;
  }
  void complete(TransferQueue &) override { ++completed; }
  uint32_t begun = 0, completed = 0;
};

enum class Outcome { right, wrong, stuck };

}  // namespace rondo_test
