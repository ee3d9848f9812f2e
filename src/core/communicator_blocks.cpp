// SPDX-License-Identifier: Apache-2.0
// This file decides whether a communicator can exchange blocks, as all_to_all, gather and scatter need.
#include <string>

#include "src/core/communicator.h"
#include "src/core/registry.h"

namespace rondo {

Result<void> Communicator::check_block_exchange(rondo_collective_t collective) const {
  if (!capabilities_.exchanges_blocks) {
    Error error = executor_->open_messages().error();  // what prevents messages prevents blocks, too
    error.message = std::string("rondo_") + rondo_collective_string(collective) + ": " + error.message;
    return error;
  }
  if (joins_all_.load(std::memory_order_relaxed) == Answer::unknown)
    joins_all_.store(joins_all_hosts(settings_, group_, tuning_) ? Answer::yes : Answer::no, std::memory_order_relaxed);
  if (joins_all_.load(std::memory_order_relaxed) == Answer::yes) return {};
  return Error{RONDO_ERROR_UNSUPPORTED,
               std::string("rondo_") + rondo_collective_string(collective) +
                   " needs a connection between each two ranks of different hosts, and no schedule joins some of them; "
                   "set RONDO_ALGORITHM=one_shot on all ranks, which connects all of them"};
}

}  // namespace rondo
