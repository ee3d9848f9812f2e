// SPDX-License-Identifier: Apache-2.0
// A network in software: two ends in one process, whose every step comes from a seed. Payloads come in pieces in any
// order before their completion; completions of different links overtake each other; credits are late. It reads a
// payload when a piece is delivered, as a NIC does, so that a slot that is written too early shows.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "transports/net.h"

namespace rondo::net_test {

/// What a network must not do. Each one is caught by a test, or the test proves nothing.
enum class Defect {
  none,
  early_arrival,  ///< a slot is told before all of its payload is there
  early_credit,   ///< a slot is given back before it was consumed
  lost_credit,    ///< one credit in eight never comes
  deaf_to_loss    ///< the loss of the peer is not told
};

struct WirePlan {
  uint64_t seed = 1;
  Defect defect = Defect::none;
  uint64_t lost_after_rounds = UINT64_MAX;  ///< polls of either end; then nothing comes through
};

/// Both ends; links are counted alike on both.
class Wire {
 public:
  Wire(const WirePlan &plan, std::array<std::vector<net::NearLink>, 2> links);
  [[nodiscard]] std::unique_ptr<net::Network> end(uint32_t which);

 private:
  friend class SoftNetwork;
  struct Flight {
    uint32_t link = 0;
    net::Message message;
    std::vector<uint32_t> pieces;  ///< offsets that are still to come, in the order in which they will
  };
  struct Direction {
    std::vector<std::vector<Flight>> flights;  ///< by link, in order
    std::vector<uint64_t> credits;             ///< by link: under way, 0: none
  };
  [[nodiscard]] bool chance(uint32_t percent) { return random_() % 100 < percent; }
  void deliver_piece(uint32_t to, Flight &flight);

  WirePlan plan_;
  std::mt19937_64 random_;
  std::array<std::vector<net::NearLink>, 2> links_;
  std::array<Direction, 2> towards_;  ///< [end that receives]
  uint64_t rounds_ = 0;
};

}  // namespace rondo::net_test
