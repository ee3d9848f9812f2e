// SPDX-License-Identifier: Apache-2.0
// This file is a network in software: two ends in one process, whose every step comes from a seed. Payloads arrive in
// pieces, in any order, before their completion. Completions of different links may overtake each other, and credits
// may be late. Like a NIC, the network reads a payload when a piece is delivered, so a slot that is written too early
// is detected. A cable may be cut, in one or both directions, or a host may die.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "transports/net.h"

namespace rondo::net_test {

/// A defect, which a network must not have. Each defect must make a test fail; otherwise the test proves nothing.
enum class Defect {
  none,
  early_arrival,  ///< a slot is reported before its whole payload has arrived
  early_credit,   ///< a slot is credited before it was consumed
  reuse_before_sent,  ///< a slot is credited before its payload was read
  lost_credit,    ///< one credit in eight never arrives
  lost_doorbell,  ///< every other wake-up of a sleeping rank is lost
  deaf_to_loss    ///< the loss of the peer is not reported
};

/// A failure of the connection, which is not a defect of the network.
enum class Fault { none, cut, cut_towards_0, cut_towards_1, host_1_dies };

struct WirePlan {
  uint64_t seed = 1;
  Defect defect = Defect::none;
  Fault fault = Fault::none;
  uint64_t fault_after_rounds = 0;  ///< polls by either end; both ends report the loss some time later
};

/// Both ends of the network. They number links in the same way.
class Wire {
 public:
  Wire(const WirePlan &plan, std::array<std::vector<net::NearLink>, 2> links);
  [[nodiscard]] std::unique_ptr<net::Network> end(uint32_t which);
  /// Says whether poll() of this end has work. A real network has a descriptor for that.
  [[nodiscard]] bool rings(uint32_t end);
  /// Says whether this end's process has died, so nobody calls it.
  [[nodiscard]] bool dead(uint32_t end) const { return plan_.fault == Fault::host_1_dies && end == 1 && faulty(); }

 private:
  friend class SoftNetwork;
  struct Flight {
    uint32_t link = 0;
    net::Message message;
    std::vector<uint32_t> pieces;  ///< offsets of pieces that have not arrived, in the order of arrival
  };
  struct Direction {
    std::vector<std::vector<Flight>> flights;  ///< by link, in order
    std::vector<uint64_t> credits;             ///< by link: the credit in flight, or 0
  };
  [[nodiscard]] bool chance(uint32_t percent) { return random_() % 100 < percent; }
  void deliver_piece(uint32_t to, Flight &flight);
  void ring(uint32_t end) { bells_[end] |= plan_.defect != Defect::lost_doorbell || !chance(50); }
  [[nodiscard]] bool faulty() const { return plan_.fault != Fault::none && rounds_ > plan_.fault_after_rounds; }
  [[nodiscard]] bool passes_nothing(uint32_t to) const;
  [[nodiscard]] bool is_to_tell_loss(uint32_t end) const;

  WirePlan plan_;
  std::mt19937_64 random_;
  std::array<std::vector<net::NearLink>, 2> links_;
  std::array<Direction, 2> towards_;  ///< by receiving end
  std::array<bool, 2> bells_{};
  std::array<bool, 2> told_lost_{};
  std::array<bool, 2> closed_{};
  std::array<uint64_t, 2> silence_rounds_{};  ///< by end: rounds from the fault until it is reported
  uint64_t rounds_ = 0;
};

}  // namespace rondo::net_test
