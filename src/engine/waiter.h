// SPDX-License-Identifier: Apache-2.0
// A rank waits by this when none of its lanes can move. It spins while there are cores for all, and hands the core over
// when there are not. Now and then it checks whether waiting still makes sense.
#pragma once

#include <cstdint>

#include "src/proto/peer_access.h"

namespace rondo {

/// Stops a waiting rank. OperationWatch (watch.h) implements it.
class Watch {
 public:
  virtual ~Watch() = default;
  /// Says whether the communicator failed. It costs a load or two.
  [[nodiscard]] virtual bool stopped() = 0;
  /// Checks everything: failure, deadline, disagreement, dead peers. Returns true to stop; then the failure is
  /// recorded.
  [[nodiscard]] virtual bool look(uint64_t now_ns) = 0;
};

struct WaitPolicy {
  uint32_t poll_count = 128;   ///< polls at once, before the first round
  uint32_t spin_count = 4096;  ///< rounds with a pause instruction
  uint32_t yield_count = 64;   ///< then rounds with sched_yield
  bool sleeps = false;         ///< then sleep until a peer rings (peers must know); otherwise nap for a short time
  bool progresses = false;     ///< each round begins with one of PeerAccess::progress()

  [[nodiscard]] static WaitPolicy dedicated() { return {128, 8192, 256, false}; }
  /// Returns dedicated() for rounds that ask a network, and so take as long as ten others. The core is soon offered to
  /// others, a rank of another container for instance.
  [[nodiscard]] static WaitPolicy dedicated_to_network() { return {128, 64, 8192, false, true}; }
  [[nodiscard]] static WaitPolicy oversubscribed() { return {8, 0, 512, true}; }
};

class Waiter {
 public:
  Waiter(const WaitPolicy &policy, PeerAccess &peers, Watch &watch) : policy_(policy), peers_(peers), watch_(watch) {}
  ~Waiter() { moved(); }
  Waiter(const Waiter &) = delete;
  Waiter &operator=(const Waiter &) = delete;

  /// Returns how often to poll before idle() pays. Data on the way from another core arrive in fewer polls.
  [[nodiscard]] uint32_t poll_count() const { return policy_.poll_count; }

  /// Waits a little in a round without progress. Returns false to stop.
  [[nodiscard]] bool idle();

  /// Says whether the communicator failed, for code that moves on without waiting. It costs a load or two.
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
  bool armed_ = false;  ///< prepare_sleep() was called: the next idle round sleeps
  uint64_t next_look_ns_ = 0;
};

}  // namespace rondo
