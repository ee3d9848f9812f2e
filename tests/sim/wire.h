// SPDX-License-Identifier: Apache-2.0
// Late stores: the sender of a connection writes to memory of its own, and what it posts reaches the receiver's memory
// later, in order on one connection and in any order between connections; the receiver's heads go back the same way.
// Without a wire both ends see the same memory, as with shared memory, and only turns are late.
#pragma once

#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "src/proto/connection.h"
#include "tests/sim/scheduler.h"

namespace rondo::sim {

class Wire {
 public:
  struct Hooks {
    std::function<bool(uint32_t rank)> reachable;  ///< its memory is still there
    std::function<void(uint32_t rank)> delivered;  ///< something came for it
  };
  /// early_flag: a slot's flag arrives before its payload (a defect to be found).
  Wire(Scheduler &scheduler, Random random, uint32_t rank_count, bool early_flag, Hooks hooks);

  /// The sender's end of a connection whose receiver's end is `target`.
  [[nodiscard]] ConnectionView sender_end(uint32_t channel, uint32_t from, uint32_t to, const ConnectionView &target);

  /// Takes what the rank has posted, and the slots that it has given back.
  void carry(uint32_t rank);

 private:
  struct Line {
    uint32_t from = 0;
    uint32_t to = 0;
    ConnectionView near;  ///< the sender's memory
    ConnectionView far;   ///< the receiver's
    std::unique_ptr<std::byte, decltype(&std::free)> memory{nullptr, &std::free};
    uint64_t simple_posted = 0;
    uint64_t ll_posted = 0;
    uint64_t simple_head = 0;
    uint64_t ll_head = 0;
    uint64_t last_down_ns = 0;
    uint64_t last_up_ns = 0;
  };

  [[nodiscard]] uint64_t arrival_ns(uint64_t &last_ns);
  void carry_simple(Line &line);
  void carry_ll(Line &line);
  void carry_heads(Line &line);
  void deliver(Line &line, std::function<void()> store);

  Scheduler &scheduler_;
  Random random_;
  bool early_flag_;
  Hooks hooks_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, std::shared_ptr<Line>> lines_;  ///< by channel, from, to
  std::vector<std::vector<std::shared_ptr<Line>>> outgoing_;  ///< by sender
  std::vector<std::vector<std::shared_ptr<Line>>> incoming_;  ///< by receiver
};

}  // namespace rondo::sim
