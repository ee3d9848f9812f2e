// SPDX-License-Identifier: Apache-2.0
// This file makes the call of each collective, for `rondo perf` and `rondo tune`.
#pragma once

#include "bench/perf/cases.h"

namespace rondo::perf {

/// Makes the call as the rank makes it.
[[nodiscard]] rondo_status_t make_call(const Case &what, const Shape &shape, Pointers at, rondo_comm_t comm,
                                       rondo_stream_t stream);

}  // namespace rondo::perf
