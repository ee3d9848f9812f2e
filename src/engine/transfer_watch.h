// SPDX-License-Identifier: Apache-2.0
// This class watches a batch of messages while the rank waits in it. It checks for a failure of the communicator, peers
// that ended, ranks that wait for each other in a circle, and the deadline. The rank that notices one of these first
// raises it for all ranks (Ranks::raise).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/engine/transfers.h"
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
  /// Begins the watch. All references must outlive it.
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

  /// Raises the reason why `head` met a wrong slot. `own_shortage` is the result of PeerAccess::own_shortage().
  void explain_fault(const Transfer &head, Fault fault, int own_shortage);
  /// Begins the timeout anew, because the time until now belonged to earlier work.
  void restart() { start_ns_ = 0; }

 private:
  void publish_blocked();
  bool check_ended_peers(uint64_t now_ns);
  /// If the head is blocked and its peer has ended, fails the communicator and returns true. The caller must read
  /// `dead` before this function reads the slots.
  bool check_ended(size_t index, std::span<const uint32_t> dead);
  /// Fails the communicator if the head's peer has ended, even if the head is not blocked.
  bool tell_ended(const Transfer &head, std::span<const uint32_t> dead);
  [[nodiscard]] bool has_ended(uint32_t peer, std::span<const uint32_t> dead) const;
  /// Returns whether data that the ended rank sent may still arrive. After a while, returns false in any case.
  [[nodiscard]] bool awaits(uint32_t ended);
  bool check_cycle(uint64_t now_ns);
  /// Checks for a circle over several hosts. A search takes several calls, because reports arrive late.
  bool check_far_cycle(uint64_t now_ns);
  /// Publishes which sends to ranks of other hosts are blocked. Returns false if the report of a rank has not arrived.
  bool publish_far_blocked(uint64_t since_ns);
  /// Returns whether a send to a rank of another host is blocked until its receiver enters another receive.
  /// @param received  number of messages that the receiver had completed at a time when it had none in progress
  [[nodiscard]] bool fills_slots(size_t index, uint64_t received) const;
  [[nodiscard]] bool raise_cycle(const std::vector<WaitEdge> &cycle);
  /// Asks the peer for which this batch waits how many matching calls it has made. Begins to ask before the deadline.
  void ask_late_peer(uint64_t now_ns);
  void time_out(uint64_t now_ns);
  /// Describes the calls of the peer that match `head`, and the peer's present operation.
  [[nodiscard]] std::string calls_of(const Transfer &head) const;
  /// Waits a moment for the peer's report about `head`. Returns an empty report if the peer has not answered.
  [[nodiscard]] MessageReport await_report(const Transfer &head);
  void raise(rondo_status_t status, uint32_t peer, const std::string &message);
  [[nodiscard]] std::string doing(uint32_t peer, const RankDoing &now) const;

  Ranks &ranks_;
  MessageBoards &boards_;
  TransferHeads &heads_;
  const uint32_t rank_;
  const uint32_t rank_count_;
  const uint64_t timeout_ns_;
  uint64_t start_ns_ = 0;  ///< time of the first check
  uint64_t next_death_check_ns_ = 0;
  uint64_t next_cycle_check_ns_ = 0;
  struct Ended {
    uint32_t rank = 0;
    uint64_t seen_ns = 0;
  };
  std::vector<Ended> ended_;     ///< ranks from which data may still arrive
  std::optional<MessageReport> report_;  ///< latest answer of the rank `reporter_`
  uint32_t reporter_ = 0;
  std::vector<WaitEdge> cycle_;  ///< circle that the latest check found
  uint64_t far_since_ns_ = 0;    ///< begin of the search over several hosts that runs now, or 0
  uint64_t next_far_check_ns_ = 0;  ///< UINT64_MAX if all ranks are on this host
  std::vector<WaitEdge> far_cycle_;  ///< circle that the latest search over several hosts found
};

}  // namespace rondo
