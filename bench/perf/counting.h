// SPDX-License-Identifier: Apache-2.0
// --count: what the kernels of a call do to memory, beside how long it takes. Only the CUDA driver in software can
// tell, whose blocks are emulated.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/perf/device.h"
#include "bench/perf/timing.h"

namespace rondo::perf {

/// Counts one call of every rank, with buffers that measure() has prepared. The result is rank 0's alone: one entry a
/// rank, in no order; elsewhere it is empty.
[[nodiscard]] Outcome count_call(Session &session, const Case &what, const Shape &shape, Workspace &workspace,
                                 std::vector<Accesses> &counts);

/// A line for people: the greatest of the ranks'.
[[nodiscard]] std::string count_line(const Shape &shape, std::span<const Accesses> counts);

}  // namespace rondo::perf
