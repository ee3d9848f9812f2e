// SPDX-License-Identifier: Apache-2.0
// These functions print lines about a communicator if RONDO_LOG is debug: its settings, its ranks, their connections,
// and each plan at its first call. If RONDO_LOG is info, only made() prints. The text of a line is built only if the
// line is written.
#pragma once

#include <cstdint>

#include "src/base/config.h"
#include "src/links/init_context.h"
#include "src/links/links.h"
#include "src/plan/plan.h"
#include "src/topo/topology.h"

namespace rondo::debug_lines {

/// Prints the variables that the user has set, or nothing if none is set.
void settings(uint32_t rank, const Settings &settings);
void topology(uint32_t rank, const Topology &topology);
void group(uint32_t rank, const GroupInfo &group);
void links(uint32_t rank, const Settings &settings, const GroupInfo &group, const Links &links);
/// Prints the plan. `place` is the executor's description of itself.
void plan(uint32_t rank, const Plan &plan, const std::string &place);

/// Prints on rank 0, at level info, a summary of the finished communicator. `place` is as in plan().
void made(uint32_t rank, const Settings &settings, const GroupInfo &group, const std::string &place);

}  // namespace rondo::debug_lines
