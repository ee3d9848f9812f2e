// SPDX-License-Identifier: Apache-2.0
// This file simulates the kernel load_store: its programs (load_store_program.h) on ranks that share cores.
#pragma once

#include "src/sim/engine.h"

namespace rondo::sim {

/// Simulates a case. `plan` names the kernel load_store, and no buffer is exported. docs/simulator.md has the model.
[[nodiscard]] Result<Outcome> simulate_load_store(const SimCase &what, const PlanChoice &plan);

}  // namespace rondo::sim
