// SPDX-License-Identifier: Apache-2.0
// This class watches a one-sided operation while its rank waits in it. It checks for a failure of the communicator, the
// end of the peer, and the deadline. If it finds a failure, it raises the failure for all ranks.
#pragma once

#include <cstdint>
#include <string>

#include "src/engine/executor.h"
#include "src/engine/operations.h"
#include "src/engine/waiter.h"
#include "src/links/links.h"

namespace rondo {

class SignalWatch final : public Watch {
 public:
  /// Begins the watch. All references must outlive it.
  SignalWatch(Operations &owner, const OneSided &operation, const Links &links)
      : owner_(owner), ranks_(owner.ranks()), operation_(operation), links_(links) {}

  [[nodiscard]] bool stopped() override { return ranks_.failed(); }
  [[nodiscard]] bool look(uint64_t now_ns) override;

  /// Raises the reason why the system refused, with errno value `error_number`, to write to the peer's buffer. The
  /// reason may also be this rank's own buffer.
  void explain_refusal(int error_number);
  /// Raises the failure that the operation has not ended in time on the stream called `stream`.
  void raise_held_up(const std::string &stream);

 private:
  [[nodiscard]] uint64_t seen_count() const;
  [[nodiscard]] bool raise_end();
  void raise(rondo_status_t status, uint32_t peer, const std::string &message);
  [[nodiscard]] std::string doing() const;
  [[nodiscard]] std::string counts(uint64_t seen) const;

  Operations &owner_;
  Ranks &ranks_;
  const OneSided &operation_;
  const Links &links_;
  uint64_t start_ns_ = 0;  ///< time of the first check
  uint64_t next_death_check_ns_ = 0;
  uint64_t ended_ns_ = 0;  ///< time of the first check that found the peer ended
};

}  // namespace rondo
