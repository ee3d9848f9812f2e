// SPDX-License-Identifier: Apache-2.0
// A life must go as docs/simulation-tests.md promises. Nobody hangs, and no result is wrong. Each failure is one that
// the events allow, names the right rank and operation, and comes in time.
#pragma once

#include <string>
#include <vector>

#include "tests/sim/life.h"

namespace rondo::sim {

/// Returns the complaints about a life; empty if all is well.
[[nodiscard]] std::vector<std::string> judge(const LifePlan &plan, const LifeRecord &record);

}  // namespace rondo::sim
