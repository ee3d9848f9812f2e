// SPDX-License-Identifier: Apache-2.0
// Chooses the implementation of combine.h, once: by RONDO_SIMD, else the fastest that this processor runs.
#include "src/engine/combine.h"

#include <cstdlib>
#include <string>

#include "src/base/log.h"
#include "src/engine/combine_targets.h"

namespace rondo {
namespace {

std::string known_targets() {
  std::string list;
  for (const CombineTarget &target : combine_targets()) {
    if (!list.empty()) list += ", ";
    list += target.name;
    if (!target.runs_here()) list += " (not on this processor)";
  }
  return list;
}

const CombineTarget &chosen_target() {
  static const CombineTarget &chosen = []() -> const CombineTarget & {
    const char *wanted = std::getenv("RONDO_SIMD");
    const auto forced = choose_combine_target(wanted == nullptr ? "" : wanted);
    if (forced.ok()) return *forced.value();
    log::error(log::Subsystem::config, forced.error().message);
    return *choose_combine_target("").value();
  }();
  return chosen;
}

}  // namespace

Result<const CombineTarget *> choose_combine_target(std::string_view wanted) {
  for (const CombineTarget &target : combine_targets())
    if (target.runs_here() && (wanted.empty() || wanted == target.name)) return &target;
  return invalid_argument("RONDO_SIMD: '" + std::string(wanted) + "' is unknown or cannot run here, so the fastest " +
                          "is chosen; known are: " + known_targets());
}

CombineFunction combine_function(rondo_type_t type, rondo_op_t op) { return chosen_target().find(type, op); }

const char *combine_target() { return chosen_target().name; }

}  // namespace rondo
