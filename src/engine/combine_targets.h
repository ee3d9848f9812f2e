// SPDX-License-Identifier: Apache-2.0
// The implementations of combine.h, by processor. A new one is a file, and a line in combine_targets_*.cpp.
#pragma once

#include <span>
#include <string_view>

#include "src/base/result.h"
#include "src/engine/combine.h"

namespace rondo {

struct CombineTarget {
  const char *name;
  bool (*runs_here)();                                     ///< can this processor run it
  CombineFunction (*find)(rondo_type_t type, rondo_op_t op);  ///< null: unknown type or operation
};

/// Those that were built, the fastest first; the last is plain C++, which runs everywhere.
[[nodiscard]] std::span<const CombineTarget> combine_targets();

/// The target called `wanted`; an empty name chooses the fastest that runs here.
[[nodiscard]] Result<const CombineTarget *> choose_combine_target(std::string_view wanted);

}  // namespace rondo
