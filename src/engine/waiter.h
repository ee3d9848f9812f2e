// SPDX-License-Identifier: Apache-2.0
// How a rank waits when none of its lanes can move: spin while there are cores for all, hand the core over when there
// are not, and look now and then whether waiting still makes sense.
#pragma once

#include <cstdint>

#include "src/proto/peer_access.h"

namespace rondo {

/// Tells a waiting rank to stop. Implemented by the communicator.
class Watch {
 public:
  virtual ~Watch() = default;
  /// A load or two: did the communicator fail?
  [[nodiscard]] virtual bool stopped() = 0;
  /// The whole look: failure, deadline, disagreement, dead peers. True: stop; the failure is recorded.
  [[nodiscard]] virtual bool look(uint64_t now_ns) = 0;
};

struct WaitPolicy {
  uint32_t poll_count = 128;   ///< looks at once, before the first round
  uint32_t spin_count = 4096;  ///< rounds with a pause instruction
  uint32_t yield_count = 64;   ///< then rounds with sched_yield
  bool sleeps = false;         ///< then sleep until a peer rings (peers must know); else short naps
  bool progresses = false;     ///< each round begins with one of PeerAccess::progress()

  [[nodiscard]] static WaitPolicy dedicated() { return {128, 8192, 256, false}; }
  /// dedicated(), where a round asks a network and so takes as long as ten others: the core is soon offered to
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

  /// How often to look before idle() is worth its while: what is on its way from another core comes in less.
  [[nodiscard]] uint32_t poll_count() const { return policy_.poll_count; }

  /// A round without progress: waits a little. False: stop.
  [[nodiscard]] bool idle();

  /// For code that moves on without waiting: did the communicator fail? A load or two.
  [[nodiscard]] bool stopped() { return watch_.stopped(); }

  /// A round with progress.
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
