// SPDX-License-Identifier: Apache-2.0
// This file lists the implementations of reduction.h. A new one needs a file, and a line in targets_*.cpp.
#pragma once

#include <span>
#include <string_view>

#include "src/base/result.h"
#include "src/engine/reduction/reduction.h"

namespace rondo {

struct ReductionTarget {
  const char *name;
  bool (*runs_here)();                                     ///< returns whether this processor can run it
  ReductionFunction (*find)(rondo_type_t type, rondo_op_t op);  ///< returns null for an unknown type or operation
};

/// Returns the implementations that were built, the fastest first. The last one is plain C++, which runs everywhere.
[[nodiscard]] std::span<const ReductionTarget> reduce_targets();

/// Returns the implementation called `wanted`. For an empty name, returns the fastest one that runs here.
[[nodiscard]] Result<const ReductionTarget *> choose_reduce_target(std::string_view wanted);

}  // namespace rondo
