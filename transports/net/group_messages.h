// SPDX-License-Identifier: Apache-2.0
// This file implements MessageBoards for ranks on several hosts. The ranks of this host publish all their messages in
// the shared segment. To learn about a rank of another host, a rank asks over the control plane.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "src/links/message_boards.h"

namespace rondo::net {

class GroupMessages final : public MessageBoards {
 public:
  struct Parts {
    MessageBoards *local = nullptr;  ///< this host's boards: they take an owner's `local_index`, and a peer's rank
    std::vector<uint32_t> local_index;  ///< by rank, as in GroupParts
    std::function<void()> expect;  ///< called when a batch begins that has messages with ranks of other hosts
    /// Makes sure that the posted slots of a completed batch are sent even if this rank makes no further call.
    std::function<void()> settle;
    /// Asks rank `of`, on another host, for its report on its messages with this rank, like Control::pair().
    std::function<std::optional<MessageReport>(uint32_t of, bool sends, uint64_t message, uint64_t since_ns)> ask;
    /// Reads what rank `of`, on another host, waits for, like Control::waits().
    std::function<bool(uint32_t of, uint64_t since_ns, WaitReport &report)> waits;
  };
  explicit GroupMessages(Parts parts) : parts_(std::move(parts)) {}

  void announce(uint32_t peer, bool sends, uint64_t last) override {
    crosses_hosts_ |= !knows(peer);
    parts_.local->announce(peer, sends, last);
  }
  void enter_batch() override {
    parts_.local->enter_batch();
    if (crosses_hosts_) parts_.expect();
  }
  [[nodiscard]] uint64_t begin(const MessageInfo &message) override { return parts_.local->begin(message); }
  void complete(uint64_t record, const MessageInfo &message, MessageRun run) override {
    parts_.local->complete(record, message, run);
  }
  void fail(uint64_t record) override { parts_.local->fail(record); }
  void complete_batch() override;
  void block(uint32_t peer, const BlockedSend &send) override { parts_.local->block(peer, send); }
  void publish_block(uint32_t peer, uint64_t operation, uint64_t bytes) override {
    parts_.local->publish_block(peer, operation, bytes);
  }
  void publish_place(const DevicePlace &place) override { parts_.local->publish_place(place); }
  void publish_captured() override { parts_.local->publish_captured(); }
  void publish_waits(const WaitReport *report) override { parts_.local->publish_waits(report); }

  [[nodiscard]] bool knows(uint32_t of) const override;
  [[nodiscard]] BatchCounts batches(uint32_t of) const override;
  [[nodiscard]] RankDoing doing(uint32_t of) const override;
  [[nodiscard]] PairCounts pair(uint32_t of, uint32_t with, bool sends) const override;
  [[nodiscard]] BlockedSend blocked(uint32_t of, uint32_t to) const override;
  [[nodiscard]] std::optional<MessageInfo> find(uint32_t of, uint32_t with, bool sends,
                                                uint64_t message) const override;
  [[nodiscard]] bool device_waits(uint32_t of, WaitReport &report) const override;
  [[nodiscard]] std::optional<MessageReport> report(uint32_t of, uint32_t with, bool sends, uint64_t message,
                                                    uint64_t since_ns) override;
  [[nodiscard]] bool read_waits(uint32_t of, uint64_t since_ns, WaitReport &report) override;

 private:
  const Parts parts_;
  bool crosses_hosts_ = false;  ///< true if the batch has messages with ranks of other hosts
};

}  // namespace rondo::net
