// SPDX-License-Identifier: Apache-2.0
// This class runs the messages of one rank on host memory, one batch at a time, and publishes them to the other ranks.
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

/// The smallest payload that is exported. A smaller one is copied, which is cheaper than a wait for the peer.
inline constexpr size_t export_bytes_min = 8192;

/// Returns the error that the address of an exported buffer of `rank` now refers to other memory. `operation` names the
/// operation that used the buffer.
[[nodiscard]] Error replaced_memory(const std::string &operation, uint32_t rank);

class HostMessages {
 public:
  /// Takes links that carry messages. They must outlive this object.
  HostMessages(Links &links, uint32_t rank, uint32_t rank_count, const WaitPolicy &wait);
  HostMessages(const HostMessages &) = delete;
  HostMessages &operator=(const HostMessages &) = delete;

  /// Runs the batch, whose turn must have come. `in_call` is true if the calling thread is the user's. Returns false
  /// if the communicator has failed.
  [[nodiscard]] bool run(std::span<Transfer> transfers, Operations &operations, bool in_call);

 private:
  /// Runs the queued messages between this rank and other ranks.
  [[nodiscard]] bool run_between_ranks(Operations &operations, MessageRun run);

  Links &links_;
  const uint32_t rank_;
  const uint32_t rank_count_;
  const WaitPolicy wait_;
  const std::unique_ptr<MessageLinks> ends_;
  TransferQueues queues_;
};

}  // namespace rondo
