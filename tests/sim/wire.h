// SPDX-License-Identifier: Apache-2.0
// This file makes stores late. The sender of a connection writes to separate memory. What the sender posts reaches the
// receiver's memory later: in order within a connection, and in any order between connections. The receiver's heads
// return in the same way. Likewise, every rank has a separate exchange. A rank's stores reach each other rank at a
// different time, in order from one rank to another. Without a wire, both ends use the same memory, as with shared
// memory, and only turns are late.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "src/proto/connection.h"
#include "src/proto/exchange.h"
#include "tests/sim/life_plan.h"
#include "tests/sim/scheduler.h"
#include "src/links/recording.h"

namespace rondo::sim {

struct UnmapBytes {
  size_t bytes = 0;
  void operator()(std::byte *memory) const;
};

class Wire {
 public:
  struct Hooks {
    std::function<bool(uint32_t rank)> reachable;  ///< the memory of the rank still exists
    std::function<void(uint32_t rank)> delivered;  ///< something has arrived for the rank
  };
  /// Makes the wire. It implements the defects early_flag and early_counter.
  Wire(Scheduler &scheduler, Random random, uint32_t rank_count, Defect defect, Hooks hooks);

  /// Returns the sender's end of a connection. `target` is the receiver's end, at whose head the counters begin.
  [[nodiscard]] ConnectionView sender_end(uint32_t channel, uint32_t from, uint32_t to, const ConnectionView &target);

  /// Returns the exchange that the rank sees.
  [[nodiscard]] ExchangeView exchange_end(uint32_t rank, const ExchangeGeometry &geometry);
  /// Records the operation to which the rank's next stores in the exchange belong.
  void enter(uint32_t rank, const OperationInfo &what);

  /// Carries the rank's posts, the slots that it has released, and its stores in the exchange.
  void carry(uint32_t rank);

 private:
  using Memory = std::unique_ptr<std::byte, UnmapBytes>;
  struct Line {
    uint32_t from = 0;
    uint32_t to = 0;
    ConnectionView near;  ///< the sender's memory
    ConnectionView far;   ///< the receiver's
    Memory memory;
    uint64_t simple_posted = 0;
    uint64_t ll_posted = 0;
    uint64_t simple_head = 0;
    uint64_t ll_head = 0;
    uint64_t last_down_ns = 0;
    uint64_t last_up_ns = 0;
  };

  /// The exchange of one rank.
  struct Own {
    ExchangeView view;
    Memory memory;
    ExchangePlace sent;             ///< flags and counters of its own place that are in flight
    OperationInfo what;             ///< its present operation
    std::vector<uint64_t> last_ns;  ///< by receiver
  };
  /// Some bytes that a rank has stored.
  struct Piece {
    size_t offset = 0;
    std::vector<std::byte> bytes;
    uint32_t to = 0;  ///< rank_count means all
  };

  [[nodiscard]] static std::byte *allocate(Memory &memory, size_t bytes);
  [[nodiscard]] uint64_t arrival_ns(uint64_t &last_ns);
  void carry_simple(Line &line);
  void carry_ll(Line &line);
  void carry_heads(Line &line);
  void carry_exchange(uint32_t rank);
  [[nodiscard]] static std::vector<Piece> new_pieces(const Own &own, uint32_t rank);
  void deliver(uint64_t &last_ns, uint32_t to, std::function<void()> store);

  Scheduler &scheduler_;
  Random random_;
  Defect defect_;
  Hooks hooks_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, std::shared_ptr<Line>> lines_;  ///< by channel, from, to
  std::vector<std::vector<std::shared_ptr<Line>>> outgoing_;  ///< by sender
  std::vector<std::vector<std::shared_ptr<Line>>> incoming_;  ///< by receiver
  std::vector<std::unique_ptr<Own>> exchanges_;               ///< by rank; null if there is none
};

}  // namespace rondo::sim
