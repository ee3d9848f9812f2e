// SPDX-License-Identifier: Apache-2.0
// This file checks that a life went as docs/tests.md promises. No rank hangs, and no result is wrong. Each failure
// follows from an event. A failure must name the right rank and operation, and be reported in time.
#pragma once

#include <string>
#include <vector>

#include "tests/sim/life.h"

namespace rondo::sim {

/// Returns the complaints about a life, or an empty list if there are none.
[[nodiscard]] std::vector<std::string> judge(const LifePlan &plan, const LifeRecord &record);

}  // namespace rondo::sim
