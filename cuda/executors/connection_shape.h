// SPDX-License-Identifier: Apache-2.0
// These functions choose the channels and slots of connections between ranks on devices. Each channel is a block of the
// interpreter's kernels.
#pragma once

#include <cstdint>

#include "cuda/driver/budget.h"
#include "cuda/executors/cuda_executor.h"
#include "src/proto/connection.h"

namespace rondo::cuda {

inline constexpr uint32_t default_channels_max = 64;  ///< if no number is requested

/// Returns the number of channels of a rank's connections, at least `least`. The result is the same on all ranks. If
/// all ranks are threads of one process on one device, they divide its multiprocessors. They take at most half of the
/// free blocks, because other communicators need some, too. In all other cases ranks know nothing of each other's
/// devices, and the result is `least`.
[[nodiscard]] uint32_t choose_connection_channels(const PlacedRequest &request, const BlockBudget &budget,
                                                  uint32_t least);

/// Returns the requested slots, otherwise slots that fit into the memory of a rank's slots (cuda/driver/budget.h). If
/// there are several hosts, it returns the slots of the links between them, because a plan is made for slots of one
/// size.
[[nodiscard]] ConnectionGeometry choose_slots(const PlacedRequest &request, uint32_t channel_count);

/// The size of all slots for messages of one rank, in bytes.
inline constexpr uint64_t message_memory_bytes = 8 << 20;
/// The most parts of a message. Each part uses its own connection.
inline constexpr uint32_t message_channels_max = 4;
/// Returns the number of channels for messages. It is 0 between nodes, and with more than batch_ranks_max ranks.
[[nodiscard]] uint32_t choose_message_channels(const PlacedRequest &request);
/// Returns the requested slots for messages, otherwise slots that fit into message_memory_bytes.
[[nodiscard]] ConnectionGeometry choose_message_slots(const PlacedRequest &request);

}  // namespace rondo::cuda
