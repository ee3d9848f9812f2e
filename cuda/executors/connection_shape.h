// SPDX-License-Identifier: Apache-2.0
// These functions choose the channels and slots of connections between ranks on devices. Each channel is a block of the
// interpreter's kernels.
#pragma once

#include <cstdint>

#include "cuda/driver/budget.h"
#include "cuda/executors/cuda_executor.h"
#include "src/base/memory_limit.h"
#include "src/proto/connection.h"

namespace rondo::cuda {

inline constexpr uint32_t default_channels_max = 64;  ///< if no number is requested

/// Returns whether the request leaves every choice to the library. Frameworks make many communicators like this, so
/// each gets little memory: at most 6 MiB of a rank's device with 2 ranks, and 16 MiB with 8.
[[nodiscard]] bool is_frugal(const PlacedRequest &request);

/// Returns the requested slots. Without a request, returns what fits into slot_memory_bytes (cuda/driver/budget.h), or
/// into less if the request is frugal. `buffers` says how ranks share buffers; if they do, slots get less, as
/// load_store does most of the work. Between hosts, returns the slots of the links, because all slots of a plan have
/// one size. This function and the ones below halve the memory `halvings` times, to stay within max_memory_bytes.
[[nodiscard]] ConnectionGeometry choose_slots(const PlacedRequest &request, uint32_t channel_count,
                                              BufferPlace buffers, uint32_t halvings = 0);

/// Returns the slots of the copy-engine executor: the requested ones, or otherwise the largest that fit into its memory
/// for slots. Between hosts, returns the slots of the links.
[[nodiscard]] ConnectionGeometry choose_copy_slots(const PlacedRequest &request, uint32_t channel_count,
                                                   uint32_t halvings = 0);

/// The size of all slots for messages of one rank, in bytes.
inline constexpr uint64_t message_memory_bytes = 8 << 20;
/// The most parts of a message. Each part uses its own connection.
inline constexpr uint32_t message_channels_max = 4;
/// Returns the number of channels for messages. It is 0 between nodes, and with more than batch_ranks_max ranks.
[[nodiscard]] uint32_t choose_message_channels(const PlacedRequest &request);
/// Returns the slots for messages: the requested ones, or otherwise what fits into message_memory_bytes. A frugal
/// request gets at most half of that, unless the ranks share buffers on one device.
[[nodiscard]] ConnectionGeometry choose_message_slots(const PlacedRequest &request, BufferPlace buffers,
                                                      uint32_t halvings = 0);

/// Returns the bytes for plans. Within limits, all plans that a communicator caches fit if they have few lanes.
[[nodiscard]] uint64_t choose_plan_bytes(uint32_t rank_count, uint32_t channel_count, uint32_t halvings = 0);

}  // namespace rondo::cuda
