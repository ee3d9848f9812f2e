// SPDX-License-Identifier: Apache-2.0
// The simulator estimates the time of a collective on a network. It runs the collective's real schedules with times in
// place of data.
#pragma once

#include <functional>
#include <map>
#include <utility>

#include "src/sim/engine.h"

namespace rondo::sim {

struct SimResult {
  PlanChoice plan;
  Outcome outcome;
  uint32_t representatives = 1;  ///< number of simulated ranks; each represents all ranks of its class
  bool exact = true;             ///< false if the time of tiles in the middle was extrapolated
};

/// Simulates cases on one network, and keeps the results. A repeated case is not simulated again.
class Simulator {
 public:
  /// Simulates a case. Fails if the network is impossible, or if the algorithm cannot run the case.
  [[nodiscard]] Result<SimResult> simulate(const SimCase &what);

  /// A function that a long simulation calls at intervals, with the finished part (0 to 1). The part is an estimate,
  /// because repeated states are skipped.
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
  uint64_t moves_expected_ = 1, moves_made_ = 0;  ///< moves of the current case
};

}  // namespace rondo::sim
