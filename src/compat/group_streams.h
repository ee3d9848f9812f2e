// SPDX-License-Identifier: Apache-2.0
// In a group, all calls of a communicator run on the stream of one of its calls. Its other streams are joined to that
// one. This file finds these streams, checks them against the graphs that capture them, and joins them.
#pragma once

#include <vector>

#include "src/compat/group.h"

namespace rondo::compat {

/// A stream of a communicator's calls in a group that is not the stream on which they run.
struct JoinedStream {
  int device;
  cudaStream_t lead;  ///< stream on which the calls run
  cudaStream_t stream;
};

/// Gives all calls of each communicator the stream of one of them, and adds their other streams to `joined`. Checks
/// that all streams of a communicator are captured by the same graph, or none is. It asks the driver only if there are
/// several streams.
ncclResult_t unite_streams(std::vector<Collective> &collectives, std::vector<OneSided> &one_sided,
                           std::vector<JoinedStream> &joined);

/// Makes the later work of each lead wait for the present work of its other streams.
ncclResult_t join_before(const std::vector<JoinedStream> &joined);

/// Makes the later work of the other streams wait for the present work of their lead.
ncclResult_t join_after(const std::vector<JoinedStream> &joined);

}  // namespace rondo::compat
