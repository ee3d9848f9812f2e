// SPDX-License-Identifier: Apache-2.0
// Whether a life went as docs/simulation-tests.md promises: nobody hangs, no result is wrong, and each failure is the
// one that what happened allows, names the right rank and operation, and comes in time.
#pragma once

#include <string>
#include <vector>

#include "tests/sim/life.h"

namespace rondo::sim {

/// Empty: all is well.
[[nodiscard]] std::vector<std::string> judge(const LifePlan &plan, const LifeRecord &record);

}  // namespace rondo::sim
