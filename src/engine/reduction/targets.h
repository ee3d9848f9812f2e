// SPDX-License-Identifier: Apache-2.0
// The implementations of reduction.h, by processor. A new one is a file, and a line in targets_*.cpp.
#pragma once

#include <span>
#include <string_view>

#include "src/base/result.h"
#include "src/engine/reduction/reduction.h"

namespace rondo {

struct ReductionTarget {
  const char *name;
  bool (*runs_here)();                                     ///< can this processor run it
  ReductionFunction (*find)(rondo_type_t type, rondo_op_t op);  ///< null: unknown type or operation
};

/// Those that were built, the fastest first; the last is plain C++, which runs everywhere.
[[nodiscard]] std::span<const ReductionTarget> reduce_targets();

/// The target called `wanted`; an empty name chooses the fastest that runs here.
[[nodiscard]] Result<const ReductionTarget *> choose_reduce_target(std::string_view wanted);

}  // namespace rondo
