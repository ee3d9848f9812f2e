// SPDX-License-Identifier: Apache-2.0
// This file implements --count. It reports how the kernels of a call access memory. It needs the CUDA driver in
// software, which emulates blocks.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/perf/device.h"
#include "bench/perf/timing.h"

namespace rondo::perf {

/// Counts one call of every rank, with buffers that measure() has prepared. Rank 0 gets the result, with one entry for
/// each rank in any order. Other ranks get an empty list.
[[nodiscard]] Outcome count_call(Session &session, const Case &what, const Shape &shape, Workspace &workspace,
                                 std::vector<Accesses> &counts);

/// Returns a line for people with the largest count of any rank.
[[nodiscard]] std::string count_line(const Shape &shape, std::span<const Accesses> counts);

}  // namespace rondo::perf
