// SPDX-License-Identifier: Apache-2.0
// Looks after a batch of messages while it waits: a failure elsewhere, peers that ended, ranks that wait for each other
// in a circle, the deadline. The rank that notices first records it for all (Ranks::raise).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/engine/run_transfers.h"
#include "src/engine/wait_cycle.h"
#include "src/engine/waiter.h"
#include "transports/messages.h"
#include "transports/ranks.h"

namespace rondo {

class TransferWatch final : public Watch {
 public:
  /// All of it outlives this.
  TransferWatch(Ranks &ranks, MessageBoards &boards, TransferQueues &queues, uint32_t rank, uint32_t rank_count,
                uint64_t timeout_ns)
      : ranks_(ranks),
        boards_(boards),
        queues_(queues),
        rank_(rank),
        rank_count_(rank_count),
        timeout_ns_(timeout_ns) {}

  [[nodiscard]] bool stopped() override { return ranks_.failed(); }
  [[nodiscard]] bool look(uint64_t now_ns) override;

  /// Records why the head of `queue` met a slot that does not fit. `own_shortage`: of PeerAccess.
  void explain_fault(const TransferQueue &queue, int own_shortage);

 private:
  void publish_blocked();
  bool check_ended_peers(uint64_t now_ns);
  /// Raises that the peer of `queue` has ended, if it has. `dead` was read before the slots. With must_block, it raises
  /// only if the head cannot move either.
  bool check_ended(const TransferQueue &queue, std::span<const uint32_t> dead, bool must_block);
  bool check_cycle(uint64_t now_ns);
  void time_out(uint64_t now_ns);
  void raise(rondo_status_t status, uint32_t peer, const std::string &message);
  [[nodiscard]] std::string doing(uint32_t peer) const;

  Ranks &ranks_;
  MessageBoards &boards_;
  TransferQueues &queues_;
  const uint32_t rank_;
  const uint32_t rank_count_;
  const uint64_t timeout_ns_;
  uint64_t start_ns_ = 0;  ///< the first look
  uint64_t next_death_check_ns_ = 0;
  uint64_t next_cycle_check_ns_ = 0;
  std::vector<WaitEdge> cycle_;  ///< as the latest check found it
};

}  // namespace rondo
