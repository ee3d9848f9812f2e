// SPDX-License-Identifier: Apache-2.0
// This file makes the call of each collective, for `rondo perf` and `rondo tune`.
#pragma once

#include "bench/perf/cases.h"

namespace rondo::perf {

/// Makes one call of the collective `what`, with the arguments of this rank.
[[nodiscard]] rondo_status_t make_call(const Case &what, const Shape &shape, Pointers at, rondo_comm_t comm,
                                       rondo_stream_t stream);

}  // namespace rondo::perf
