// SPDX-License-Identifier: Apache-2.0
// This header decides how load_store uses a device: whether ranks share buffers, how many blocks kernels have, and how
// large a rank's place is (cuda/kernels/load_store_place.h).
#pragma once

#include <cstdint>
#include <string>

#include "cuda/driver/budget.h"
#include "cuda/driver/kernel_set.h"
#include "cuda/executors/checked_buffers.h"
#include "cuda/executors/cuda_plan.h"
#include "cuda/executors/cuda_executor.h"
#include "cuda/kernels/load_store_kernels.h"
#include "cuda/driver/handles.h"
#include "cuda/transport/info_exchange.h"
#include "cuda/transport/regions.h"
#include "src/engine/executor.h"

namespace rondo::cuda {

/// Returns how ranks share buffers. The result is the same on all ranks.
/// - shared_device, peer_devices: All ranks are threads of one process, and one kernel can run them all if they share
///   launches. They are on one device, or on several that reach each other, where only some buffers may be readable for
///   peers.
/// - registered: The ranks are several processes, on any number of devices, and share regions.
/// - device: In all other cases.
[[nodiscard]] BufferPlace place_of_buffers(const PlacedRequest &request);

/// Returns whether ranks on several devices must agree on whether they share buffers, and on the number of channels.
/// The result is the same on all ranks.
[[nodiscard]] bool agrees_on_peers(const PlacedRequest &request);


/// Sets the call's buffers in `operation`. If the call lacks a buffer, or peers do not touch it, the other buffer is
/// used for both. Peers do not touch recv of a reduce_scatter, nor send of an all_gather. If `regions` is null, windows
/// hold addresses. A context must be current.
void post_buffers(const CudaDriver &driver, const CheckedBuffers &checked, Regions *regions, BufferPlace place,
                  const CudaPlan &plan, const DeviceCall &call, device::LoadStoreOperation &operation);

/// Returns whether a communicator has the kernels and places of load_store. The user may request them. They are the
/// default if the ranks share buffers and nothing else is requested. All devices must reach each other.
[[nodiscard]] bool wants_load_store(const PlacedRequest &request);

/// Loads the kernels of load_store for a communicator that did not request them. If they cannot be loaded, returns
/// false. Then no rank that shares buffers uses load_store: the ranks agree on that, or all of them fail alike because
/// they are on one device. In two cases it returns an error instead:
/// - A tuning table requires load_store, and the ranks are not threads on one device.
/// - The other ranks would not learn of the failure.
[[nodiscard]] Result<bool> load_load_store(const PrimaryContext &context, const PlacedRequest &request,
                                           KernelSet &kernels);

/// Returns the geometry of load_store, or none if ranks do not want it. `channel_count` is the number of channels that
/// ranks have agreed on, or the number of their connections' channels if ranks do not share buffers.
[[nodiscard]] device::LoadStoreGeometry choose_load_store(const PlacedRequest &request, uint32_t channel_count,
                                                          uint32_t halvings = 0);

/// Returns the most blocks of a joint kernel. Its blocks do not wait for each other, so all that fit on the device are
/// allowed, unless fewer are requested for each rank.
[[nodiscard]] uint32_t joint_blocks_max(const PlacedRequest &request, const BlockBudget &budget);

/// Returns the number of threads in a block. `post_words` is the number of words that one_shot posts per channel.
[[nodiscard]] uint32_t load_store_threads(bool one_shot, uint32_t post_words);

/// The chunk of a channel, in bytes, if ranks share buffers. So sizes within a chunk fit in 32 bits.
inline constexpr uint64_t shared_chunk_bytes = uint64_t{1} << 30;

/// Describes the plan of a rank for kernels of load_store, except what differs per call. `regions` is the device
/// address of the table of regions, or 0.
void describe_load_store(const Plan &plan, const Segment &segment, uint32_t rank, DevicePointer regions,
                         CudaPlan &made);

}  // namespace rondo::cuda
