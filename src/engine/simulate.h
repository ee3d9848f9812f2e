// SPDX-License-Identifier: Apache-2.0
// The simulator: how long a collective would take on a network, by running its very schedules with times for data.
#pragma once

#include "src/engine/sim_engine.h"

namespace rondo::sim {

struct SimResult {
  PlanChoice plan;
  Outcome outcome;
  Symmetry symmetry;
};

/// Refused where the network makes no sense or the algorithm cannot do it.
[[nodiscard]] Result<SimResult> simulate(const SimCase &what);

}  // namespace rondo::sim
