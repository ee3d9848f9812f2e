// SPDX-License-Identifier: Apache-2.0
// This class runs the one-sided operations of a rank on host memory, one batch at a time. On the same host it writes to
// the peer's buffer itself. To another host it posts slots (src/links/remote_memory.h), which the peer's links take. A
// batch is complete once these links have taken all its slots, so the data of a complete put are in the window.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/engine/executor.h"
#include "src/engine/operations.h"
#include "src/engine/waiter.h"
#include "src/links/links.h"
#include "src/proto/simple.h"

namespace rondo {

class HostOneSided {
 public:
  /// Takes links that have signals and are open for messages. They must outlive this object.
  HostOneSided(Links &links, const WaitPolicy &wait, uint32_t rank_count)
      : links_(links), serves_(links.needs_progress()), wait_(wait) {
    for (uint32_t peer = 0; peer < rank_count; ++peer)
      far_.push_back({links.outgoing_puts(peer), SimpleSender(links.outgoing_puts(peer))});
  }

  /// Runs operations whose turn has come. Returns false if the communicator has failed.
  [[nodiscard]] bool run(std::span<const OneSided> operations, Operations &owner);

 private:
  /// The link for puts to a rank of another host.
  struct Far {
    ConnectionView link;
    SimpleSender sender;
    uint64_t posted = 0;  ///< number of slots posted so far
  };

  [[nodiscard]] bool run_all(std::span<const OneSided> operations, Operations &owner);
  [[nodiscard]] bool send(const OneSided &operation, Operations &owner);
  [[nodiscard]] bool wait(const OneSided &operation, Operations &owner);
  /// Posts the data and the signal to a rank of another host, and waits for free slots as needed.
  [[nodiscard]] bool post(const OneSided &operation, Operations &owner);
  /// Waits until the peer's links have taken all slots that post() has posted.
  [[nodiscard]] bool await_taken(const OneSided &operation, Operations &owner);
  /// Waits until `ready` returns true. If the wait fails, fails the communicator and returns false.
  template <class Ready>
  [[nodiscard]] bool wait_until(const Ready &ready, const OneSided &operation, Operations &owner);

  Links &links_;
  const bool serves_;  ///< true if the thread of a batch also takes slots that arrive from other hosts
  const WaitPolicy wait_;
  std::vector<Far> far_;  ///< indexed by rank; only used for ranks of other hosts
};

}  // namespace rondo
