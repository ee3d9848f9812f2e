// SPDX-License-Identifier: Apache-2.0
#include "cuda/executors/load_store_shape.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "cuda/executors/connection_shape.h"
#include "cuda/kernels/plan_image.h"
#include "src/base/log.h"

namespace rondo::cuda {
namespace {

constexpr uint32_t warp_threads = 32;
// These sizes were not tuned by measurement. In a place, post areas take 256 KiB, or 128 KiB for each rank that pushes.
// With 8 ranks and 4 channels, the chunk areas of all places take 36 MiB, or 56 MiB if ranks push.
constexpr uint32_t load_store_post_bytes = 64 << 10, pushed_post_bytes = 32 << 10;
constexpr uint32_t load_store_chunk_bytes = 256 << 10;
constexpr uint32_t unused_chunk_bytes = cache_line_bytes;  // of a place: ranks that share buffers pass no chunks on
constexpr uint32_t peer_chunk_bytes = 64 << 10;
// With these two sizes, a place of ranks on several devices takes 3.3 MiB and has chunks of 24 KiB among 2 ranks. Among
// 8 ranks it takes 6.4 MiB, with chunks of 24 KiB. On one device, with 32 channels, chunks have 16 and 44 KiB.
constexpr uint64_t frugal_place_bytes = 5 << 19, frugal_place_rank_bytes = 1 << 19;
constexpr uint32_t frugal_chunk_bytes_min = 4 << 10;  // chunks are multiples of it

}  // namespace

BufferPlace place_of_buffers(const PlacedRequest &request) {
  if (request.executor != RONDO_DEVICE_EXECUTOR_KERNEL) return BufferPlace::device;
  if (request.shares_launches && !request.fits_one_kernel()) return BufferPlace::device;
  if (request.neighbours.in_process == request.rank_count)
    return request.apart ? BufferPlace::peer_devices : BufferPlace::shared_device;
  if (request.shares_regions) return BufferPlace::registered;
  return request.peer_devices.empty() ? BufferPlace::device : BufferPlace::peer_devices;
}

bool agrees_on_peers(const PlacedRequest &request) {
  return shares_partly(place_of_buffers(request)) && wants_load_store(request);
}

bool wants_load_store(const PlacedRequest &request) {
  if (request.executor != RONDO_DEVICE_EXECUTOR_KERNEL || request.rank_count < 2 ||
      request.rank_count > device::load_store_rank_count_max || !request.pairs_apart.empty())
    return false;
  return request.load_store() ||
         (request.is_free() && (place_of_buffers(request) != BufferPlace::device ||
                                (request.measured_load_store && request.on_one_node() && !request.shares_launches)));
}

void post_buffers(const CudaDriver &driver, const CheckedBuffers &checked, Regions *regions, BufferPlace place,
                  const CudaPlan &plan, const DeviceCall &call, device::LoadStoreOperation &operation) {
  Buffers touched = call.buffers;
  if (operation.collective == device::LoadStoreCollective::all_gather) touched.send.data = nullptr;
  if (operation.collective == device::LoadStoreCollective::reduce_scatter) touched.recv.data = nullptr;
  const std::byte *const send = touched.send.data, *const recv = touched.recv.data;
  const auto post = [&](const std::byte *pointer, uint64_t bytes) -> std::optional<uint64_t> {
    return regions == nullptr ? reinterpret_cast<uint64_t>(pointer) : regions->posted(pointer, bytes, call.captured);
  };
  std::optional<uint64_t> posted_send, posted_recv;
  if (send != nullptr) posted_send = post(send, plan.send_bytes);
  posted_recv = recv != nullptr ? post(recv, plan.recv_bytes) : posted_send;
  if (send == nullptr) posted_send = posted_recv;
  operation.can_be_read = posted_send && posted_recv ? 1 : 0;
  if (regions == nullptr && place == BufferPlace::peer_devices) {
    const auto readable = [&](const std::byte *at) { return at == nullptr || checked.peers_can_read(driver, at); };
    operation.can_be_read = readable(send) && readable(recv) ? 1 : 0;
  }
  operation.posted_send = posted_send.value_or(0);
  operation.posted_recv = posted_recv.value_or(0);
}

Result<bool> load_load_store(const PrimaryContext &context, const PlacedRequest &request, KernelSet &kernels) {
  auto more = KernelSet::load(context, kernel_families(request.executor, RONDO_KERNEL_LOAD_STORE));
  if (more.ok()) {
    kernels = std::move(more).value();
    return true;
  }
  const bool needed = place_of_buffers(request) != BufferPlace::shared_device && request.measured_load_store;
  const bool others_hear = agrees_on_peers(request) || more.error().status == RONDO_ERROR_UNSUPPORTED;
  if (needed || !others_hear) return more.error();
  log::info({log::Subsystem::device, request.rank}, "ranks go on without load_store: " + more.error().message);
  return false;
}

device::LoadStoreGeometry choose_load_store(const PlacedRequest &request, uint32_t channel_count,
                                            uint32_t halvings) {
  if (!wants_load_store(request)) return {};
  const BufferPlace buffers = place_of_buffers(request);
  device::LoadStoreGeometry shape{request.rank_count, channel_count, load_store_post_bytes, load_store_chunk_bytes};
  if (request.several_devices && request.rank_count <= device::push_rank_count_max) {
    shape.pushes = 1;
    shape.post_bytes = pushed_post_bytes;
  }
  const auto halve = [&] {
    if (halvings == 0) return;
    shape.chunk_bytes = std::min(shape.chunk_bytes, std::max(shape.chunk_bytes >> halvings, frugal_chunk_bytes_min));
    shape.post_bytes = std::max(shape.post_bytes >> halvings, frugal_chunk_bytes_min);
  };
  if (buffers == BufferPlace::device) {
    halve();
    return shape;
  }
  shape.chunk_bytes = shares_partly(buffers) ? peer_chunk_bytes : unused_chunk_bytes;
  const uint64_t bytes_max = frugal_place_bytes + frugal_place_rank_bytes * request.rank_count;
  while (is_frugal(request) && shape.chunk_bytes > frugal_chunk_bytes_min && shape.bytes() > bytes_max)
    shape.chunk_bytes -= frugal_chunk_bytes_min;
  halve();
  return shape;
}

uint32_t joint_blocks_max(const PlacedRequest &request, const BlockBudget &budget) {
  uint64_t most = budget.blocks;
  for (const uint32_t asked : {request.settings.channels, request.settings.max_ctas})
    if (asked != 0) most = std::min<uint64_t>(most, uint64_t{asked} * request.rank_count);
  return static_cast<uint32_t>(most);
}

uint32_t load_store_threads(bool one_shot, uint32_t post_words) {
  if (!one_shot) return block_threads_max;
  const uint32_t for_words = (post_words + warp_threads - 1) / warp_threads * warp_threads;  // few: short barriers
  return std::min(for_words + warp_threads, block_threads_max);  // a warp without words polls first words
}

void describe_load_store(const Plan &plan, const Segment &segment, uint32_t rank, DevicePointer regions,
                         CudaPlan &made) {
  device::LoadStoreOperation &operation = made.load_store;
  operation.geometry = segment.shape().load_store;
  for (uint32_t peer = 0; peer < operation.geometry.rank_count; ++peer)
    operation.places[peer] = reinterpret_cast<std::byte *>(segment.address_of(peer) + segment.shape().place_offset());
  operation.rank = rank;
  device::describe_load_store(plan, segment.shape().buffers, shared_chunk_bytes, operation);
  made.channel_count = made.lane_count = plan.choice.channels;
  if (regions != 0) operation.regions = reinterpret_cast<const uint64_t *>(regions);
  const uint64_t element_bytes = plan.lanes.front().program.element_bytes;
  made.send_bytes = plan.send.count * element_bytes;
  made.recv_bytes = plan.recv.count * element_bytes;
  made.threads = load_store_threads(operation.mode == device::LoadStoreMode::one_shot, operation.post_words);
}

}  // namespace rondo::cuda
