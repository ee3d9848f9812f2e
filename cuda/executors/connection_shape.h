// SPDX-License-Identifier: Apache-2.0
// Connections of ranks on devices: how many channels, each of which is a block of the interpreter's kernels, and how
// many slots of which size.
#pragma once

#include <cstdint>

#include "cuda/driver/budget.h"
#include "cuda/executors/executor.h"
#include "src/proto/connection.h"

namespace rondo::cuda {

inline constexpr uint32_t default_channels_max = 64;  ///< where nobody asks for a number

/// Channels of a rank's connections, at least the `least`. Where all ranks are threads of one process on one device:
/// its multiprocessors for each of them, if those take no more than half of the blocks that are free: other
/// communicators want some, too. Elsewhere ranks know nothing of each other's devices, and have the least. The same on
/// all ranks.
[[nodiscard]] uint32_t choose_connection_channels(const DeviceRequest &request, const BlockBudget &budget,
                                                  uint32_t least);

/// What is asked for, else what fits into the memory that a rank's slots may take (cuda/driver/budget.h); between hosts
/// as the links have them: a plan is for slots of one size.
[[nodiscard]] ConnectionGeometry choose_slots(const DeviceRequest &request, uint32_t channel_count);

}  // namespace rondo::cuda
