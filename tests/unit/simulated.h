// SPDX-License-Identifier: Apache-2.0
// Tests of the simulator compare its times with closed forms.
#pragma once

#include "src/sim/simulate.h"
#include "tests/catch.h"

namespace rondo::sim {

/// Returns the simulated microseconds of one call.
inline double simulated_us(const SimCase &what) {
  const auto result = Simulator().simulate(what);
  REQUIRE(result.ok());
  return static_cast<double>(result.value().outcome.time_ps) / ps_per_us;
}

}  // namespace rondo::sim
