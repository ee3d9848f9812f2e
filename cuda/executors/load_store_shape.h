// SPDX-License-Identifier: Apache-2.0
// This header decides how load_store uses a device: whether ranks share buffers, how many blocks a rank's kernels have,
// and how large its place is.
#pragma once

#include <cstdint>
#include <string>

#include "cuda/driver/budget.h"
#include "cuda/driver/kernel_set.h"
#include "cuda/executors/cuda_plan.h"
#include "cuda/executors/cuda_executor.h"
#include "cuda/kernels/load_store_kernels.h"
#include "cuda/driver/handles.h"
#include "cuda/transport/info_exchange.h"
#include "cuda/transport/regions.h"
#include "src/engine/executor.h"

namespace rondo::cuda {

/// Returns how ranks share buffers. The result is the same on all ranks.
/// - shared_device, peer_devices: All ranks are threads of one process, and each launches its own kernels. They are on
///   one device, or on several that reach each other. Each rank can read and write all buffers, or all that peers can
///   read.
/// - registered: The ranks are several processes, on any number of devices, and share regions.
/// - device: In all other cases.
[[nodiscard]] BufferPlace place_of_buffers(const PlacedRequest &request);

/// Says whether each rank must call agree_on_peers(). That is so if ranks on several devices must agree whether they
/// share buffers, and on the number of channels. The result is the same on all ranks.
[[nodiscard]] bool agrees_on_peers(const PlacedRequest &request);

/// The message of a rank to the others in agree_on_peers().
struct PeersInfo {
  uint32_t channel_count = 0;  ///< channels that its device can give it, or 0 if it cannot share buffers
};

/// Says whether this process sees the devices of all ranks, and its own device can do atomics there. If not, it logs
/// the reason.
[[nodiscard]] Result<bool> reaches_region_devices(const PrimaryContext &context, const PlacedRequest &request);

/// Lets kernels of `context` reach callers' buffers on the peer devices. If all ranks can do that, they share buffers,
/// with the smallest number of channels of any rank. Otherwise `request` is changed as if no device reached another.
/// Ranks may differ, because a device that has its maximum of peers refuses another. `channel_count` has the meaning of
/// PeersInfo::channel_count.
[[nodiscard]] Result<void> agree_on_peers(const PrimaryContext &context, uint32_t channel_count,
                                          InfoExchange &info_exchange, PlacedRequest &request);

/// Sets the call's buffers in `operation`. If the call lacks one buffer, or no peer touches it, the other buffer takes
/// its place. Peers do not touch recv of a reduce_scatter and send of an all_gather. If `regions` is null, windows have
/// addresses. A context must be current.
void post_buffers(const CudaDriver &driver, Regions *regions, BufferPlace place, const CudaPlan &plan,
                  const DeviceCall &call, device::LoadStoreOperation &operation);

/// Says whether a communicator has the kernels of load_store and places for them. It does if it requests them, or if
/// its ranks share buffers and it requests no other kernel.
[[nodiscard]] bool wants_load_store(const PlacedRequest &request);

/// Loads the kernels of load_store for a communicator that did not request them. Returns false if they cannot be loaded
/// and the ranks can do without them. Then all ranks that share buffers do without: they agree on it, or on one device
/// all of them fail alike. Otherwise the failure is an error. One such case is that a measured table requires
/// load_store and the ranks are not threads on one device. The other is that the other ranks would not learn of the
/// failure.
[[nodiscard]] Result<bool> load_load_store(const PrimaryContext &context, const PlacedRequest &request,
                                           KernelSet &kernels);

/// Returns the geometry of load_store, or an empty one if ranks do not want it. `channel_count` is the number of
/// channels of connections. Ranks that share buffers divide the multiprocessors of the device, and each rank has one
/// channel for each of its multiprocessors. All channels together take at most half of the free blocks, because other
/// communicators need some, too. If ranks are in several processes, they have more than `channel_count` channels only
/// while all claims fit in half of the device's blocks. With MPS they never have more, because no process knows the
/// claims of others. The result is the same on all ranks of a device, and on all devices after agree_on_peers().
[[nodiscard]] device::LoadStoreGeometry choose_load_store(const PlacedRequest &request, const BlockBudget &budget,
                                                          uint32_t channel_count);

/// Returns the blocks of the budget that one rank of the communicator takes. Its kernels run one after another, so they
/// share blocks.
[[nodiscard]] uint64_t blocks_of_a_rank(uint32_t channel_count, const device::LoadStoreGeometry &load_store);

/// Claims the `wanted` channels until ranks have agreed. It does so only if ranks are in several processes and want
/// more than `channel_count`. Other communicators that are made at the same time may leave too few of half of the
/// device's blocks. Then it sets `wanted` to `channel_count`, and claims nothing.
[[nodiscard]] BlockClaim reserve_blocks(const CudaDevice &device, const PlacedRequest &request, uint32_t channel_count,
                                        const BlockBudget &budget, device::LoadStoreGeometry &wanted);

/// Claims `channels` resident blocks for this rank. The first rank of a process also claims the blocks of the ranks in
/// other processes. Blocks must be resident, because a block that is not resident never runs while the others wait for
/// it. All claims count, because calls of several communicators may be in flight at once. RONDO_ERROR_OUT_OF_RESOURCES
/// means that the blocks do not all fit. `name` is the device's name for messages. `reserved` is the claim of
/// reserve_blocks(), which the new claim replaces.
[[nodiscard]] Result<BlockClaim> claim_residency(const CudaDevice &device, const std::string &name, uint64_t channels,
                                                 const Neighbours &neighbours, const BlockBudget &budget,
                                                 BlockClaim &&reserved = {});

/// Returns the most blocks of a joint kernel. Its blocks do not wait for each other, so all that fit on the device are
/// allowed, unless fewer are requested for each rank.
[[nodiscard]] uint32_t joint_blocks_max(const PlacedRequest &request, const BlockBudget &budget);

/// Returns the number of threads in a block. `post_words` is the number of words that one_shot posts per channel.
[[nodiscard]] uint32_t load_store_threads(bool one_shot, uint32_t post_words);

/// The chunk of a channel, in bytes, if ranks share buffers. Sizes of a chunk fit in 32 bits there.
inline constexpr uint64_t shared_chunk_bytes = uint64_t{1} << 30;

/// Describes the plan of a rank for kernels of load_store, except what differs per call. `regions` is the device
/// address of the table of regions, or 0.
void describe_load_store(const Plan &plan, const Segment &segment, uint32_t rank, DevicePointer regions,
                         CudaPlan &made);

}  // namespace rondo::cuda
