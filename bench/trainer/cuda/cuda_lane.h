// SPDX-License-Identifier: Apache-2.0
// This file declares collectives on a stream of a device, by a communicator on that device.
#pragma once

#include <memory>

#include "bench/trainer/cuda/device.h"
#include "bench/trainer/lanes/lane.h"

namespace rondo::train {

/// Opens a lane that runs collectives on a stream of `device`.
/// @param group        the ranks and their communicator on the host; all ranks call this at once
/// @param computation  the stream for whose work the lane's collectives wait
[[nodiscard]] Outcome open_cuda_lane(Device &device, void *computation, Group &group, const rondo_config_t &config,
                                     std::unique_ptr<Lane> &lane);

}  // namespace rondo::train
