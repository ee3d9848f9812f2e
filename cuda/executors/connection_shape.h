// SPDX-License-Identifier: Apache-2.0
// Connections of ranks on devices: how many channels, each of which is a block of the interpreter's kernels, and how
// many slots of which size.
#pragma once

#include <cstdint>

#include "cuda/driver/budget.h"
#include "cuda/executors/cuda_executor.h"
#include "src/proto/connection.h"

namespace rondo::cuda {

inline constexpr uint32_t default_channels_max = 64;  ///< where nobody asks for a number

/// Returns the channels of a rank's connections, at least `least`; the result is the same on all ranks. If all ranks
/// are threads of one process on one device, they divide its multiprocessors. They take at most half of the free
/// blocks, since other communicators want some, too. Elsewhere ranks know nothing of each other's devices, and use
/// `least`.
[[nodiscard]] uint32_t choose_connection_channels(const PlacedRequest &request, const BlockBudget &budget,
                                                  uint32_t least);

/// Returns the slots that are asked for, otherwise what fits into the memory of a rank's slots (cuda/driver/budget.h).
/// Between hosts it returns the links' slots, since a plan is for slots of one size.
[[nodiscard]] ConnectionGeometry choose_slots(const PlacedRequest &request, uint32_t channel_count);

/// The slots for messages of one rank, together.
inline constexpr uint64_t message_memory_bytes = 8 << 20;
/// The most parts of a message, each of which has a connection.
inline constexpr uint32_t message_channels_max = 4;
/// Returns the channels of connections for messages: 0 between nodes, and above batch_ranks_max ranks.
[[nodiscard]] uint32_t choose_message_channels(const PlacedRequest &request);
/// Returns the slots for messages: those that are asked for, otherwise what fits into message_memory_bytes.
[[nodiscard]] ConnectionGeometry choose_message_slots(const PlacedRequest &request);

}  // namespace rondo::cuda
