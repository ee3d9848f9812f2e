// SPDX-License-Identifier: Apache-2.0
// RONDO_LOG=debug prints these lines about a communicator: its settings, its ranks, what joins them, and what was
// chosen for an operation when it is first called. RONDO_LOG=info prints the last one. A function here builds its line
// only where it will be written.
#pragma once

#include <cstdint>

#include "src/base/config.h"
#include "src/core/group_info.h"
#include "src/plan/plan.h"
#include "src/topo/topology.h"
#include "src/links/links.h"

namespace rondo::debug_lines {

/// Prints the variables that were set; nothing if none was.
void settings(uint32_t rank, const Settings &settings);
void topology(uint32_t rank, const Topology &topology);
void group(uint32_t rank, const GroupInfo &group);
void links(uint32_t rank, const Settings &settings, const GroupInfo &group, const Links &links);
/// Prints the plan. `place` is what the executor says of itself.
void plan(uint32_t rank, const Plan &plan, const std::string &place);

/// Prints, on rank 0 and with `info`, what a finished communicator is. `place` is what the executor says of itself.
void made(uint32_t rank, const Settings &settings, const GroupInfo &group, const std::string &place);

}  // namespace rondo::debug_lines
