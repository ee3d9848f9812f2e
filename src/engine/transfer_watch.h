// SPDX-License-Identifier: Apache-2.0
// Watches a batch of messages while it waits: a failure elsewhere, peers that ended, ranks that wait for each other in
// a circle, the deadline. The rank that notices first records it for all (Ranks::raise).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/engine/transfer_heads.h"
#include "src/engine/wait_cycle.h"
#include "src/engine/waiter.h"
#include "src/links/message_boards.h"
#include "src/links/ranks.h"
#include "src/proto/interpreter.h"

namespace rondo {

[[nodiscard]] inline MessageInfo info_of(const Transfer &transfer) {
  return {transfer.peer, transfer.sends, transfer.type, transfer.bytes, transfer.message};
}

class TransferWatch final : public Watch {
 public:
  /// All of it outlives this.
  TransferWatch(Ranks &ranks, MessageBoards &boards, TransferHeads &heads, uint32_t rank, uint32_t rank_count,
                uint64_t timeout_ns)
      : ranks_(ranks),
        boards_(boards),
        heads_(heads),
        rank_(rank),
        rank_count_(rank_count),
        timeout_ns_(timeout_ns) {}

  [[nodiscard]] bool stopped() override { return ranks_.failed(); }
  [[nodiscard]] bool look(uint64_t now_ns) override;

  /// Records why `head` met a slot that does not fit. `own_shortage`: of PeerAccess.
  void explain_fault(const Transfer &head, Fault fault, int own_shortage);
  /// Begins its time anew: what was watched until now was something before it.
  void restart() { start_ns_ = 0; }

 private:
  void publish_blocked();
  bool check_ended_peers(uint64_t now_ns);
  /// Raises that the peer of the head has ended, if it has. `dead` was read before the slots.
  bool check_ended(size_t index, std::span<const uint32_t> dead);
  /// Raises it likewise, whether or not the head can move.
  bool tell_ended(const Transfer &head, std::span<const uint32_t> dead);
  [[nodiscard]] bool has_ended(uint32_t peer, std::span<const uint32_t> dead) const;
  /// Returns whether something that the ended rank sent may still arrive. This ends after a while.
  [[nodiscard]] bool awaits(uint32_t ended);
  bool check_cycle(uint64_t now_ns);
  /// Asks the peer for which this batch waits what it has called, before the deadline comes.
  void ask_late_peer(uint64_t now_ns);
  void time_out(uint64_t now_ns);
  /// Describes what the peer of `head` has called to match it, and what it does now.
  [[nodiscard]] std::string calls_of(const Transfer &head) const;
  /// Waits a moment for what the peer says of `head`. Empty: it has not answered.
  [[nodiscard]] MessageReport await_report(const Transfer &head);
  void raise(rondo_status_t status, uint32_t peer, const std::string &message);
  [[nodiscard]] std::string doing(uint32_t peer, const BatchCounts &batches) const;

  Ranks &ranks_;
  MessageBoards &boards_;
  TransferHeads &heads_;
  const uint32_t rank_;
  const uint32_t rank_count_;
  const uint64_t timeout_ns_;
  uint64_t start_ns_ = 0;  ///< the first look
  uint64_t next_death_check_ns_ = 0;
  uint64_t next_cycle_check_ns_ = 0;
  struct Ended {
    uint32_t rank = 0;
    uint64_t seen_ns = 0;
  };
  std::vector<Ended> ended_;     ///< ranks from which something may still arrive
  std::optional<MessageReport> report_;  ///< the latest answer of the rank `reporter_`
  uint32_t reporter_ = 0;
  std::vector<WaitEdge> cycle_;  ///< as the latest check found it
};

}  // namespace rondo
