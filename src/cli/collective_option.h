// SPDX-License-Identifier: Apache-2.0
// This file reads the option --collective of `rondo schedule` and `rondo sim`, which know every collective.
#pragma once

#include <string>
#include <string_view>

#include "src/base/result.h"
#include "src/plan/collective.h"

namespace rondo::cli {

/// Returns the names of the collectives, as "all_reduce, reduce_scatter, ...".
[[nodiscard]] std::string known_collectives();

/// Returns the collective called `text`, as collective_spelling() reads it.
[[nodiscard]] Result<rondo_collective_t> read_collective(std::string_view text);

}  // namespace rondo::cli
