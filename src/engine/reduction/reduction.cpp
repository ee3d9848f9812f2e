// SPDX-License-Identifier: Apache-2.0
// This file chooses an implementation of reduction.h once: the one of RONDO_SIMD, or the fastest that runs here.
#include "src/engine/reduction/reduction.h"

#include <string>

#include "src/base/config.h"
#include "src/base/log.h"

namespace rondo {
namespace {

std::string known_targets() {
  std::string list;
  for (const ReductionTarget &target : reduce_targets()) {
    if (!list.empty()) list += ", ";
    list += target.name;
    if (!target.runs_here()) list += " (not on this processor)";
  }
  return list;
}

const ReductionTarget &chosen_target() {
  static const ReductionTarget *const chosen = [] {
    // An unreadable environment is not reported here: making a communicator fails and reports why.
    const auto config = read_config();
    const SimdTarget wanted = config.ok() ? config.value().simd : SimdTarget::automatic;
    const auto forced = choose_reduce_target(wanted == SimdTarget::automatic ? "" : simd_target_string(wanted));
    if (forced.ok()) return forced.value();
    log::error(log::Subsystem::config, forced.error().message);
    return choose_reduce_target("").value();
  }();
  return *chosen;
}

}  // namespace

Result<const ReductionTarget *> choose_reduce_target(std::string_view wanted) {
  for (const ReductionTarget &target : reduce_targets())
    if (target.runs_here() && (wanted.empty() || wanted == target.name)) return &target;
  return invalid_argument("RONDO_SIMD: '" + std::string(wanted) + "' is unknown or cannot run here, so the fastest " +
                          "is chosen; known are: " + known_targets());
}

ReductionFunction reduce_function(rondo_type_t type, rondo_op_t op) { return chosen_target().find(type, op); }

const char *reduce_target() { return chosen_target().name; }

}  // namespace rondo
