// SPDX-License-Identifier: Apache-2.0
// The messages of one rank on host memory. It runs batches, one at a time, and publishes them to the other ranks.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "src/engine/operations.h"
#include "src/engine/run_transfers.h"
#include "src/engine/waiter.h"
#include "src/links/links.h"
#include "src/links/message_boards.h"

namespace rondo {

/// Below this a copy is cheaper than waiting for the peer to give the buffer back.
inline constexpr size_t export_bytes_min = 8192;

/// Says that an exported buffer of `rank` has other memory at its address by now. `operation` names what used it.
[[nodiscard]] Error replaced_memory(const std::string &operation, uint32_t rank);

class HostMessages {
 public:
  /// `links` carry messages, and outlive this.
  HostMessages(Links &links, uint32_t rank, uint32_t rank_count, const WaitPolicy &wait);
  HostMessages(const HostMessages &) = delete;
  HostMessages &operator=(const HostMessages &) = delete;

  /// Runs the batch, whose turn it is. in_call: on the caller's thread. False: the communicator has failed.
  [[nodiscard]] bool run(std::span<Transfer> transfers, Operations &operations, bool in_call);

 private:
  /// Runs what the queues hold.
  [[nodiscard]] bool run_between_ranks(Operations &operations, bool in_call);

  Links &links_;
  const uint32_t rank_;
  const uint32_t rank_count_;
  const WaitPolicy wait_;
  const std::unique_ptr<MessageLinks> ends_;
  TransferQueues queues_;
};

}  // namespace rondo
