// SPDX-License-Identifier: Apache-2.0
#include "cuda/executors/load_store_shape.h"

#include <algorithm>

namespace rondo::cuda {
namespace {

constexpr uint32_t warp_threads = 32;
// Nothing was measured. Post areas take 256 KiB of a place, areas of chunks those of 8 ranks with 4 channels 36 MiB.
constexpr uint32_t load_store_post_bytes = 64 << 10;
constexpr uint32_t load_store_chunk_bytes = 256 << 10;
constexpr uint32_t unused_chunk_bytes = cache_line_bytes;  // of a place: ranks that share buffers pass no chunks on
constexpr uint32_t shared_channels_max = 128;

}  // namespace

bool shares_buffers(const DeviceRequest &request) {
  return request.executor == RONDO_DEVICE_EXECUTOR_KERNEL && !request.shares_launches &&
         request.neighbours.in_process == request.rank_count;
}

bool wants_load_store(const DeviceRequest &request) {
  if (request.executor != RONDO_DEVICE_EXECUTOR_KERNEL || request.rank_count < 2 ||
      request.rank_count > device::load_store_rank_count_max)
    return false;
  const bool is_free = request.kernel == RONDO_KERNEL_AUTO && request.protocol == RONDO_PROTOCOL_AUTO;
  return request.load_store() || (is_free && (shares_buffers(request) ||
                                              (request.measured_load_store && request.on_one_node() &&
                                               !request.shares_launches)));
}

uint64_t blocks_of_a_rank(uint32_t channel_count, const device::LoadStoreGeometry &load_store) {
  return std::max(channel_count, load_store.channel_count);
}

device::LoadStoreGeometry choose_load_store(const DeviceRequest &request, const BlockBudget &budget,
                                            uint32_t channel_count) {
  if (!wants_load_store(request)) return {};
  const uint32_t ranks = request.rank_count;
  if (!shares_buffers(request)) return {ranks, channel_count, load_store_post_bytes, load_store_chunk_bytes};
  device::LoadStoreGeometry shape{ranks, channel_count, load_store_post_bytes, unused_chunk_bytes};
  if (request.channel_count != 0) return shape;  // so many are asked for
  const uint64_t free_blocks = budget.blocks - std::min(budget.blocks, request.claimed_blocks);
  const uint64_t most = free_blocks / 2 / ranks;
  uint64_t wanted = std::min<uint64_t>({budget.multiprocessors / ranks, most, shared_channels_max});
  wanted = std::max<uint64_t>(wanted, channel_count);
  if (request.channel_count_max != 0) wanted = std::min<uint64_t>(wanted, request.channel_count_max);
  shape.channel_count = static_cast<uint32_t>(wanted);
  return shape;
}

uint32_t load_store_threads(bool one_shot, uint64_t bytes, uint32_t channel_count) {
  if (!one_shot) return block_threads_max;
  const uint64_t words = (bytes / device::word_bytes + channel_count) / channel_count;  // a few need no wide barrier
  const uint64_t threads = (words + warp_threads - 1) / warp_threads * warp_threads;
  return static_cast<uint32_t>(std::clamp<uint64_t>(threads, warp_threads, block_threads_max));
}

}  // namespace rondo::cuda
