// SPDX-License-Identifier: Apache-2.0
// A rank waits with this class when none of its lanes can move. If there are cores for all ranks, the waiter spins.
// Otherwise it yields the core to other ranks. At intervals it checks whether the rank must stop.
#pragma once

#include <cstdint>

#include "src/proto/peer_access.h"

namespace rondo {

/// A check that stops a waiting rank. OperationWatch (watch.h) implements it.
class Watch {
 public:
  virtual ~Watch() = default;
  /// Returns whether the communicator has failed. The call costs a load or two.
  [[nodiscard]] virtual bool stopped() = 0;
  /// Checks for a failure, the deadline, a disagreement and dead peers. If one of these ends the wait, it raises the
  /// failure and returns true.
  [[nodiscard]] virtual bool look(uint64_t now_ns) = 0;
};

struct WaitPolicy {
  uint32_t poll_count = 128;   ///< polls without a pause, before the first round
  uint32_t spin_count = 4096;  ///< then rounds with a pause instruction
  uint32_t yield_count = 64;   ///< then rounds with sched_yield
  bool sleeps = false;         ///< afterwards, sleep until a peer wakes this rank; if false, nap for a short time
  bool progresses = false;     ///< true if each round begins with a round of PeerAccess::progress()

  [[nodiscard]] static WaitPolicy dedicated() { return {128, 8192, 256, false}; }
  /// Returns the policy for ranks that poll a network. A round with such a poll takes as long as ten other rounds. So
  /// the waiter soon offers the core to others, for instance to a rank of another container.
  [[nodiscard]] static WaitPolicy dedicated_to_network() { return {128, 64, 8192, false, true}; }
  [[nodiscard]] static WaitPolicy oversubscribed() { return {8, 0, 512, true}; }
};

class Waiter {
 public:
  Waiter(const WaitPolicy &policy, PeerAccess &peers, Watch &watch) : policy_(policy), peers_(peers), watch_(watch) {}
  ~Waiter() { moved(); }
  Waiter(const Waiter &) = delete;
  Waiter &operator=(const Waiter &) = delete;

  /// Returns how often a caller polls before its first idle(). Data that another core sends now arrive in that time.
  [[nodiscard]] uint32_t poll_count() const { return policy_.poll_count; }

  /// Waits a little after a round without progress. Returns false if the rank must stop.
  [[nodiscard]] bool idle();

  /// Returns whether the communicator has failed, for code that proceeds without waiting. Costs a load or two.
  [[nodiscard]] bool stopped() { return watch_.stopped(); }

  /// Notes a round with progress.
  void moved() {
    round_ = 0;
    if (armed_) disarm();
  }

 private:
  void disarm();
  [[nodiscard]] bool rest();

  WaitPolicy policy_;
  PeerAccess &peers_;
  Watch &watch_;
  uint32_t round_ = 0;
  uint32_t ticket_ = 0;
  bool armed_ = false;  ///< true after prepare_sleep(): the next idle round sleeps
  uint64_t next_look_ns_ = 0;
};

}  // namespace rondo
