// SPDX-License-Identifier: Apache-2.0
// What load_store has of a device: whether ranks share their buffers, how many blocks a rank's kernels have
// there, and how large its places are.
#pragma once

#include <cstdint>
#include <string>

#include "cuda/driver/budget.h"
#include "cuda/driver/kernel_set.h"
#include "cuda/executors/cuda_plan.h"
#include "cuda/executors/executor.h"
#include "cuda/kernels/load_store.h"
#include "cuda/transport/handles.h"
#include "cuda/transport/info_exchange.h"
#include "cuda/transport/regions.h"
#include "src/engine/executor.h"

namespace rondo::cuda {

/// shared_device, peer_devices: all ranks are threads of one process, on one device or on several that reach each
/// other, and launch kernels of their own: each can read and write all buffers, or those that peers can read.
/// registered: of several processes, on however many devices, by regions. Else device. The same on all ranks.
[[nodiscard]] BufferPlace place_of_buffers(const DeviceRequest &request);

/// Ranks on several devices have to agree on whether they share buffers, and by how many channels: each calls
/// agree_on_peers(). The same on all ranks.
[[nodiscard]] bool agrees_on_peers(const DeviceRequest &request);

/// What a rank tells the others then.
struct PeersInfo {
  uint32_t channel_count = 0;  ///< that its device has for it; 0: it cannot share buffers
};

/// False: this process does not see the device of another rank, or its own does no atomics there; says so.
[[nodiscard]] Result<bool> reaches_region_devices(const PrimaryContext &context, const DeviceRequest &request);

/// Lets kernels of `context` reach callers' buffers on the peer devices. If all ranks can, they share buffers, by the
/// channels that all of them have; else `request` is as if no device reached another. (Devices may differ, and one that
/// has as many peers as it can take refuses one more.) `channel_count`: as PeersInfo.
[[nodiscard]] Result<void> agree_on_peers(const PrimaryContext &context, uint32_t channel_count,
                                          InfoExchange &info_exchange, DeviceRequest &request);

/// What the rank's windows are to say of a call's buffers. A buffer that no peer touches (recv of a reduce_scatter,
/// send of an all_gather) or that the call does not have is posted as the other one. `regions`: null: by addresses.
/// With a context current.
void post_buffers(const CudaDriver &driver, Regions *regions, BufferPlace place, const CudaPlan &plan,
                  const DeviceCall &call, device::LoadStoreOperation &operation);

/// A communicator has the kernels of load_store and places for them: it asks for them, or has them because its ranks
/// share buffers and it asks for nothing else.
[[nodiscard]] bool wants_load_store(const DeviceRequest &request);

/// The kernels of load_store beside the others, for a communicator that has them without asking. False: they cannot be
/// loaded, and are not needed: ranks that share buffers do without, all of them, as they agree or, on one device, find
/// the same image without them. (A measured table that has load_store is for ranks of other devices as well, where all
/// need it.)
[[nodiscard]] Result<bool> load_load_store(const PrimaryContext &context, const DeviceRequest &request,
                                           KernelSet &kernels);

/// None where ranks do not want it. `channel_count`: of connections. Ranks that share buffers have as many channels as
/// the device has multiprocessors for each of them, if those take no more than half of the blocks that are free: other
/// communicators want some, too. In several processes they have more than `channel_count` only while all claims stay
/// within half of the device's blocks, and by MPS never: nobody knows there what other processes claim. The same on all
/// ranks of a device; on those of all devices once they have agreed.
[[nodiscard]] device::LoadStoreGeometry choose_load_store(const DeviceRequest &request, const BlockBudget &budget,
                                                          uint32_t channel_count);

/// Blocks of the budget that one rank of the communicator takes. Its kernels follow each other.
[[nodiscard]] uint64_t blocks_of_a_rank(uint32_t channel_count, const device::LoadStoreGeometry &load_store);

/// In several processes, where more than `channel_count` are `wanted`: holds them until ranks have agreed. If others
/// that are made at the same time, by the same claims, have left too little of half of the device's blocks, wants
/// `channel_count`, and holds none.
[[nodiscard]] BlockClaim reserve_blocks(const CudaDevice &device, const DeviceRequest &request, uint32_t channel_count,
                                        const BlockBudget &budget, device::LoadStoreGeometry &wanted);

/// Claims the blocks of a rank, each of which has `channels`; the first of a process, those of other processes as well.
/// A block that is not resident never runs while the others wait for it; and calls of several communicators may be in
/// flight at once. RONDO_ERROR_OUT_OF_RESOURCES: they do not all fit. `name`: of the device, for people. `reserved`: by
/// reserve_blocks(), which this takes the place of.
[[nodiscard]] Result<BlockClaim> claim_residency(const CudaDevice &device, const std::string &name, uint64_t channels,
                                                 const Neighbours &neighbours, const BlockBudget &budget,
                                                 BlockClaim &&reserved = {});

/// Of a joint kernel, whose blocks wait for nobody: all that fit on the device, unless fewer are asked for, of each
/// rank.
[[nodiscard]] uint32_t joint_blocks_max(const DeviceRequest &request, const BlockBudget &budget);

/// Of a block. `post_words`: of a channel's post by one_shot.
[[nodiscard]] uint32_t load_store_threads(bool one_shot, uint32_t post_words);

/// Of a channel's chunk where ranks share buffers: chunks are there so that their sizes fit into 32 bits.
inline constexpr uint64_t shared_chunk_bytes = uint64_t{1} << 30;

}  // namespace rondo::cuda
