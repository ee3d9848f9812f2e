// SPDX-License-Identifier: Apache-2.0
// Times for the kernel load_store: its programs (load_store_program.h) on ranks that take turns on cores.
#pragma once

#include "src/sim/engine.h"

namespace rondo::sim {

/// `plan` names the kernel load_store; buffers are not exported. docs/simulator.md has the model.
[[nodiscard]] Result<Outcome> simulate_load_store(const SimCase &what, const PlanChoice &plan);

}  // namespace rondo::sim
