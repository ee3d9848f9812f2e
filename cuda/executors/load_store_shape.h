// SPDX-License-Identifier: Apache-2.0
// What load_store has of a device: whether ranks share their buffers, how many blocks a rank's kernels have
// there, and how large its places are.
#pragma once

#include <cstdint>

#include "cuda/driver/budget.h"
#include "cuda/executors/executor.h"
#include "cuda/kernels/load_store.h"

namespace rondo::cuda {

/// All ranks are threads of one process on one device, and launch kernels of their own: each can read and write all
/// buffers. The same on all ranks.
[[nodiscard]] bool shares_buffers(const DeviceRequest &request);

/// A communicator has the kernels of load_store and places for them: it asks for them, or has them because its ranks
/// share buffers and it asks for nothing else.
[[nodiscard]] bool wants_load_store(const DeviceRequest &request);

/// The same on all ranks; none where they do not want it or cannot have it. `channel_count`: of connections. Ranks that
/// share buffers have as many channels as the device has multiprocessors for each of them, if those take no more than
/// half of the blocks that are free: other communicators want some, too.
[[nodiscard]] device::LoadStoreGeometry choose_load_store(const DeviceRequest &request, const BlockBudget &budget,
                                                          uint32_t channel_count);

/// Blocks of the budget that one rank of the communicator takes. Its kernels follow each other.
[[nodiscard]] uint64_t blocks_of_a_rank(uint32_t channel_count, const device::LoadStoreGeometry &load_store);

/// Of a block.
[[nodiscard]] uint32_t load_store_threads(bool one_shot, uint64_t bytes, uint32_t channel_count);

/// Of a channel's chunk where ranks share buffers: chunks are there so that their sizes fit into 32 bits.
inline constexpr uint64_t shared_chunk_bytes = uint64_t{1} << 30;

}  // namespace rondo::cuda
