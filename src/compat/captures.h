// SPDX-License-Identifier: Apache-2.0
// This file checks the streams of a group against the graphs that capture them.
#pragma once

#include <vector>

#include "src/compat/group.h"

namespace rondo::compat {

/// Checks that all streams of a communicator are captured by the same graph, or none is. It asks the driver only if
/// there are several streams.
ncclResult_t check_captures(const std::vector<Collective> &collectives, const std::vector<OneSided> &one_sided);

}  // namespace rondo::compat
