// SPDX-License-Identifier: Apache-2.0
// This file has the ranks of a communicator over connections in plain memory. The host executor runs them.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/engine/run_plan.h"

namespace rondo::test {

/// Ranks of one process. The address in a slot's header can be read on every rank.
class LocalPeers : public PeerAccess {
 public:
  const std::byte *import_payload(uint32_t, const SlotHeader &header, std::byte *) override {
    return reinterpret_cast<const std::byte *>(header.address);
  }
  void wake(uint32_t) override {}
  uint32_t prepare_sleep() override { return 0; }
  void sleep(uint32_t, uint64_t) override { std::this_thread::yield(); }
  void cancel_sleep() override {}
};

class Patience final : public Watch {
 public:
  bool stopped() override { return false; }
  bool look(uint64_t now_ns) override { return now_ns > deadline_ns_; }

 private:
  uint64_t deadline_ns_ = now_ns() + 60'000'000'000;
};

/// All ranks of a communicator over connections in plain memory.
class HostWorld {
 public:
  HostWorld(uint32_t rank_count, uint32_t channel_count, const ConnectionGeometry &geometry, uint64_t first_counter = 0)
      : rank_count_(rank_count), geometry_(geometry) {
    for (uint32_t rank = 0; rank < rank_count; ++rank) scratch_.emplace_back(geometry.slot_bytes);
    const size_t stride = (geometry.bytes() + 63) / 64 * 64;
    memory_.resize(stride * rank_count * rank_count * channel_count + 64);
    auto *base = reinterpret_cast<std::byte *>((reinterpret_cast<uintptr_t>(memory_.data()) + 63) / 64 * 64);
    const auto connection = [&](uint32_t channel, uint32_t from, uint32_t to) {
      return ConnectionView{base + stride * ((channel * rank_count + from) * rank_count + to), geometry};
    };
    ends_.resize(size_t{rank_count} * rank_count * channel_count);
    for (uint32_t rank = 0; rank < rank_count; ++rank)
      for (uint32_t channel = 0; channel < channel_count; ++channel)
        for (uint32_t peer = 0; peer < rank_count; ++peer) {
          LinkEnds &ends = this->ends(rank, channel, peer);
          ends.peer = peer;
          ends.readable_kinds = peer == rank ? 0 : kind_bit(PayloadKind::address);
          const ConnectionView out = connection(channel, rank, peer);
          const ConnectionView in = connection(channel, peer, rank);
          out.simple_head() = out.ll_head() = first_counter;
          ends.simple_out = SimpleSender(out, first_counter);
          ends.simple_in = SimpleReceiver(in, first_counter);
          ends.ll_out = LlSender(out, first_counter);
          ends.ll_in = LlReceiver(in, first_counter);
        }
  }

  LinkEnds &ends(uint32_t rank, uint32_t channel, uint32_t peer) {
    return ends_[(size_t{channel} * rank_count_ + rank) * rank_count_ + peer];
  }

  void run(uint32_t rank, const Plan &plan, const Buffers &buffers) {
    std::vector<std::vector<LinkEnds *>> ends(plan.choice.channels);
    std::vector<HostLinks> links;
    for (uint32_t channel = 0; channel < plan.choice.channels; ++channel) {
      for (const uint32_t peer : plan.schedules[channel].peers)
        ends[channel].push_back(&this->ends(rank, channel, peer));
      links.push_back({ends[channel], &peers_, &scratch_[rank], false});
    }
    const auto op = static_cast<rondo_op_t>(plan.key.signature.op);
    const auto type = static_cast<rondo_type_t>(plan.key.signature.type);
    const HostReducer reducer{reduce_function(type, op), nullptr, op == RONDO_AVG ? rank_count_ : 0};
    Patience patience;
    Waiter waiter(WaitPolicy{0, 64, UINT32_MAX - 64, false}, peers_, patience);
    const RunOutcome outcome = run_plan(plan, buffers, reducer, links, waiter);
    if (outcome.kind != RunOutcome::Kind::done) ++failures_;
  }
  [[nodiscard]] uint32_t failures() const { return failures_; }

 private:
  uint32_t rank_count_;
  ConnectionGeometry geometry_;
  std::vector<std::byte> memory_;
  std::vector<LinkEnds> ends_;
  std::vector<Scratch> scratch_;
  LocalPeers peers_;
  std::atomic<uint32_t> failures_ = 0;
};

}  // namespace rondo::test
