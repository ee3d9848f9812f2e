// SPDX-License-Identifier: Apache-2.0
// --count reports what the kernels of a call do to memory, beside how long it takes. It needs the CUDA driver in
// software, whose blocks are emulated.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/perf/device.h"
#include "bench/perf/timing.h"

namespace rondo::perf {

/// Counts one call of every rank, with buffers that measure() has prepared. Rank 0 gets the result, one entry a rank in
/// no order. Elsewhere it is empty.
[[nodiscard]] Outcome count_call(Session &session, const Case &what, const Shape &shape, Workspace &workspace,
                                 std::vector<Accesses> &counts);

/// Returns a line for people with the greatest of the ranks' counts.
[[nodiscard]] std::string count_line(const Shape &shape, std::span<const Accesses> counts);

}  // namespace rondo::perf
