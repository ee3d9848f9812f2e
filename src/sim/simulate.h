// SPDX-License-Identifier: Apache-2.0
// The simulator: how long a collective would take on a network, by running its real schedules with times instead of
// data.
#pragma once

#include <functional>
#include <map>
#include <utility>

#include "src/sim/engine.h"

namespace rondo::sim {

struct SimResult {
  PlanChoice plan;
  Outcome outcome;
  uint32_t representatives = 1;  ///< ranks that were simulated for all
  bool exact = true;             ///< false: tiles in the middle were reckoned at the pace of those before
};

/// Simulates cases on one network, and keeps what it has found.
class Simulator {
 public:
  /// Simulates a case. It is refused if the network makes no sense or the algorithm cannot do it.
  [[nodiscard]] Result<SimResult> simulate(const SimCase &what);

  /// It is called now and then with the finished part of a long simulation, from 0 to 1. This is an estimate, because
  /// states may repeat.
  using Watcher = std::function<void(double)>;
  void watch(Watcher watcher) { watcher_ = std::move(watcher); }

 private:
  [[nodiscard]] Result<SimResult> run(const SimCase &what, const System &system, uint64_t move_count_max);
  [[nodiscard]] Result<SimResult> extrapolate(const SimCase &what, const System &system);
  [[nodiscard]] Result<SimResult> shorter(SimCase what, const System &system, uint64_t tile_count);

  using Key = std::pair<std::array<uint64_t, 7>, bool>;
  [[nodiscard]] static Key key_of(const SimCase &what, const PlanChoice &plan);
  std::map<Key, SimResult> found_;
  Watcher watcher_;
  uint64_t moves_expected_ = 1, moves_made_ = 0;  ///< of the case at hand
};

}  // namespace rondo::sim
