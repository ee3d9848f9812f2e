// SPDX-License-Identifier: Apache-2.0
// A network in software: two ends in one process, whose every step comes from a seed. Payloads arrive in pieces in any
// order before their completion. Completions of different links overtake each other, and credits are late. The network
// reads a payload when a piece is delivered, as a NIC does, so that a slot that is written too early shows. A cable is
// cut, in one direction or both, or a host dies.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "transports/net.h"

namespace rondo::net_test {

/// A thing that a network must not do. A test catches each one, or the test proves nothing.
enum class Defect {
  none,
  early_arrival,  ///< a slot is reported before all of its payload has arrived
  early_credit,   ///< a slot is given back before it was consumed
  reuse_before_sent,  ///< a slot is given back while its payload is still to be read
  lost_credit,    ///< one credit in eight never comes
  lost_doorbell,  ///< every other wake-up of a sleeping rank is lost
  deaf_to_loss    ///< the loss of the peer is not reported
};

/// A failure on the way, as opposed to a defect.
enum class Fault { none, cut, cut_towards_0, cut_towards_1, host_1_dies };

struct WirePlan {
  uint64_t seed = 1;
  Defect defect = Defect::none;
  Fault fault = Fault::none;
  uint64_t fault_after_rounds = 0;  ///< polls of either end; both report the loss some time after it
};

/// Both ends; links are counted alike on both.
class Wire {
 public:
  Wire(const WirePlan &plan, std::array<std::vector<net::NearLink>, 2> links);
  [[nodiscard]] std::unique_ptr<net::Network> end(uint32_t which);
  /// Returns whether poll() of this end has something to do, in place of a descriptor to sleep on.
  [[nodiscard]] bool rings(uint32_t end);
  /// Returns whether nobody calls this end any more.
  [[nodiscard]] bool dead(uint32_t end) const { return plan_.fault == Fault::host_1_dies && end == 1 && faulty(); }

 private:
  friend class SoftNetwork;
  struct Flight {
    uint32_t link = 0;
    net::Message message;
    std::vector<uint32_t> pieces;  ///< offsets that are still to come, in the order in which they will
  };
  struct Direction {
    std::vector<std::vector<Flight>> flights;  ///< by link, in order
    std::vector<uint64_t> credits;             ///< by link, under way; 0 for none
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
  std::array<Direction, 2> towards_;  ///< [end that receives]
  std::array<bool, 2> bells_{};
  std::array<bool, 2> told_lost_{};
  std::array<bool, 2> closed_{};
  std::array<uint64_t, 2> silence_rounds_{};  ///< [end]: from the fault until it is reported
  uint64_t rounds_ = 0;
};

}  // namespace rondo::net_test
