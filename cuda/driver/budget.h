// SPDX-License-Identifier: Apache-2.0
// This file says what kernels use of a device's resources, and how many of their blocks can be resident on the device
// at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/driver/driver.h"
#include "cuda/driver/kernel_set.h"
#include "src/proto/connection.h"

namespace rondo::cuda {

inline constexpr uint32_t default_channel_count = 4;
/// Returns the number of channels of a rank's connections on a device. Each channel is a block. A `wanted` of 0 means
/// default_channel_count. A `limit` of 0 means no limit.
[[nodiscard]] constexpr uint32_t connection_channels(uint32_t wanted, uint32_t limit) {
  const uint32_t channels = wanted != 0 ? wanted : default_channel_count;
  return limit != 0 && limit < channels ? limit : channels;
}
inline constexpr uint32_t ll_slot_bytes = 4 << 10;
inline constexpr uint32_t channel_lanes_max = 2;  ///< a tree has two lanes
/// The most threads in a block of a kernel that waits; the lanes of a channel share them. Only blocks of a one_shot may
/// be smaller. If others differed in size, a small block alone on a multiprocessor could keep larger ones out. Then the
/// number of blocks would not show what can be resident.
inline constexpr uint32_t block_threads_max = 256;

/// The most device memory, in bytes, for the `simple` slots of one rank. More ranks or channels get smaller slots.
inline constexpr uint64_t slot_memory_bytes = 64 << 20;
/// The most host memory, in bytes, for the slots of one rank, if some devices do not reach each other.
inline constexpr uint64_t host_slot_memory_bytes = 16 << 20;
inline constexpr uint32_t slot_bytes_max = 128 << 10, slot_bytes_min = 4 << 10;
inline constexpr uint32_t slot_count_max = 8, slot_count_min = 4;
/// Returns the number of slots of a connection if none is requested. If memory is short, a connection gets fewer slots
/// before slots get smaller, because each slot costs a wait.
[[nodiscard]] constexpr uint32_t slot_count_for(uint32_t rank_count, uint32_t channel_count,
                                                uint64_t memory_bytes = slot_memory_bytes) {
  const uint64_t bytes = uint64_t{rank_count} * channel_count * slot_bytes_max;
  return bytes * slot_count_max > memory_bytes ? slot_count_min : slot_count_max;
}
/// Returns the bytes of a slot if no size is requested. It is a power of two.
[[nodiscard]] constexpr uint32_t slot_bytes_for(uint32_t rank_count, uint32_t channel_count, uint32_t slot_count,
                                                uint64_t memory_bytes = slot_memory_bytes) {
  const uint64_t slots = uint64_t{rank_count} * channel_count * slot_count;
  uint32_t bytes = slot_bytes_max;
  while (bytes > slot_bytes_min && bytes * slots > memory_bytes) bytes /= 2;
  return bytes;
}

/// The limits of the kernel that needs the most resources, for blocks with the most lanes. Every block counts as a
/// block of that kernel.
struct BlockBudget {
  uint32_t block_threads = 0;
  uint32_t shared_bytes = 0;  ///< of a block
  uint32_t blocks_per_multiprocessor = 0;
  uint64_t blocks = 0;  ///< on the device: the blocks of all ranks of a process must fit
  uint64_t multiprocessors = 0;
};


/// Returns the budget for a communicator that uses `kernels`. Blocks of load_store always fit it, because they have no
/// more threads and less shared memory.
[[nodiscard]] Result<BlockBudget> block_budget(const KernelSet &kernels, const CudaDevice &device);

/// The blocks that a claim takes on a device. With MPS, it also covers ranks of the communicator in other processes.
struct ClaimedBlocks {
  DeviceUuid device{};
  uint64_t blocks = 0;
  uint64_t rank_count = 0;  ///< number of ranks that share the blocks

  bool operator==(const ClaimedBlocks &) const = default;
};

/// The most ranks, over all communicators, for which a device keeps one block each. The device keeps at most half of
/// its blocks for them. 128 ranks are 64 communicators of two ranks.
inline constexpr uint64_t kept_ranks_max = 128;
/// Returns how many blocks each of the `rank_count` ranks of a new communicator may take on the device. All these ranks
/// together take at most half of the free blocks, and no more than the device has multiprocessors. They leave the
/// blocks that the device keeps for later ranks (kept_ranks_max). If a rank then gets few blocks, it may take up to
/// default_channel_count blocks that are not kept. A rank may take one block in any case.
[[nodiscard]] uint64_t share_of_rank(const BlockBudget &budget, const ClaimedBlocks &claimed, uint64_t rank_count);
struct BlockClaimTraits {
  using Handle = ClaimedBlocks;
  static constexpr Handle invalid{};
  static void close(const Handle &handle);
};
/// Returns the blocks that are claimed at the moment.
[[nodiscard]] uint64_t claimed_blocks(const DeviceUuid &device);
/// A claim of blocks. The kernels of all claims may be in flight together. Any thread may use it.
using BlockClaim = UniqueHandle<BlockClaimTraits>;
/// The blocks that the ranks of a communicator want on a device. Each rank gets the same number of blocks.
struct BlockWish {
  std::vector<uint64_t> rank_counts;  ///< for each claim, the number of ranks that share it
  uint64_t least = 1, most = 1;       ///< blocks of a rank
};
/// Claims blocks for all ranks of a communicator on a device at once. Each rank gets share_of_rank() blocks, within the
/// limits of `wish`. All claims of this process on the device stay within `budget`. If they cannot, the call returns
/// RONDO_ERROR_OUT_OF_RESOURCES. Its message begins with the ranks and has the numbers of blocks.
[[nodiscard]] Result<std::vector<BlockClaim>> claim_blocks(const DeviceUuid &device, const BlockBudget &budget,
                                                           const BlockWish &wish);
/// Gives back the blocks of the claim that exceed `blocks` for each rank.
void shrink_claim(BlockClaim &claim, uint64_t blocks);

/// The facts that the driver reports about a kernel.
struct KernelFacts {
  std::string name;
  int register_count = 0;
  int shared_bytes = 0;  ///< as declared by the kernel itself
  int local_bytes = 0;   ///< per thread: spilled registers and stack
  int block_threads_max = 0;
};

/// Loads all kernels, also those that communicators load on demand, and returns their facts.
[[nodiscard]] Result<std::vector<KernelFacts>> kernel_facts(const PrimaryContext &context);

}  // namespace rondo::cuda
