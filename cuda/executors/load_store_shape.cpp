// SPDX-License-Identifier: Apache-2.0
#include "cuda/executors/load_store_shape.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "cuda/kernels/plan_image.h"
#include "src/base/log.h"

namespace rondo::cuda {
namespace {

constexpr uint32_t warp_threads = 32;
// These sizes were not tuned by measurement. Post areas take 256 KiB of a place, and chunk areas of 8 ranks with 4
// channels 36 MiB.
constexpr uint32_t load_store_post_bytes = 64 << 10;
constexpr uint32_t load_store_chunk_bytes = 256 << 10;
constexpr uint32_t unused_chunk_bytes = cache_line_bytes;  // for ranks that share buffers, which need no chunk areas
// If ranks are on several devices, and peers cannot read a call's buffer, two ranks' places use 12 MiB. 32 blocks have
// 32 KiB each in flight. That is 1 MiB, or about 2 us at 450 GB/s.
constexpr uint32_t peer_channels_max = 32;
constexpr uint32_t peer_chunk_bytes = 64 << 10;

/// Says whether kernels on peer devices can read and write the buffers. Peer access covers memory of cuMemAlloc, but
/// pools and mapped memory have their own lists of devices. Returns false if the driver does not know a buffer. A null
/// buffer need not be readable. A context must be current.
bool peers_can_read(const CudaDriver &driver, const Buffers &buffers) {
  for (const std::byte *const pointer : {buffers.send.data, buffers.recv.data}) {
    if (pointer == nullptr) continue;
    const auto info = pointer_info(driver, pointer);
    if (!info.ok() || !info.value().legacy_ipc_capable) return false;
  }
  return true;
}

}  // namespace

BufferPlace place_of_buffers(const PlacedRequest &request) {
  if (request.executor != RONDO_DEVICE_EXECUTOR_KERNEL) return BufferPlace::device;
  if (request.shares_launches && !request.fits_one_kernel()) return BufferPlace::device;
  if (request.neighbours.in_process == request.rank_count)
    return request.apart ? BufferPlace::peer_devices : BufferPlace::shared_device;
  if (!request.region_devices.empty()) return BufferPlace::registered;
  return request.peer_devices.empty() ? BufferPlace::device : BufferPlace::peer_devices;
}

bool agrees_on_peers(const PlacedRequest &request) {
  return shares_partly(place_of_buffers(request)) && wants_load_store(request);
}

bool wants_load_store(const PlacedRequest &request) {
  if (request.executor != RONDO_DEVICE_EXECUTOR_KERNEL || request.rank_count < 2 ||
      request.rank_count > device::load_store_rank_count_max)
    return false;
  return request.load_store() ||
         (request.is_free() && (place_of_buffers(request) != BufferPlace::device ||
                                (request.measured_load_store && request.on_one_node() && !request.shares_launches)));
}

Result<bool> reaches_region_devices(const PrimaryContext &context, const PlacedRequest &request) {
  if (request.region_devices.empty()) return true;
  const auto &[driver, own, object] = context.get();
  RONDO_TRY_ASSIGN(const auto devices, cuda_devices(*driver));
  for (const DeviceUuid &wanted : request.region_devices) {
    const auto found =
        std::find_if(devices.begin(), devices.end(), [&](const CudaDevice &device) { return device.uuid == wanted; });
    if (found != devices.end() && (found->ordinal == own || has_native_atomics(*driver, own, found->ordinal))) continue;
    log::info({log::Subsystem::device, request.rank},
              "registered buffers are not shared: device " + std::to_string(own) +
                  " cannot perform atomics on the device of another rank, or this process does not see that device "
                  "(CUDA_VISIBLE_DEVICES)");
    return false;
  }
  return true;
}

Result<void> agree_on_peers(const PrimaryContext &context, uint32_t channel_count, InfoExchange &info_exchange,
                            PlacedRequest &request) {
  PeersInfo own{channel_count};
  std::vector<PrimaryContext> peers;  // held until the other ranks have their contexts
  for (const CuDevice peer : request.peer_devices) {
    auto opened = open_peer_device(context, peer);
    if (opened.ok()) {
      peers.push_back(std::move(opened).value());
      continue;
    }
    log::info({log::Subsystem::device, request.rank}, "buffers are not shared: " + opened.error().message);
    own.channel_count = 0;
  }
  RONDO_TRY_ASSIGN(const auto infos, info_exchange.infos(peers_key, own));
  request.peer_channels = own.channel_count;
  for (const PeersInfo &info : infos) request.peer_channels = std::min(request.peer_channels, info.channel_count);
  if (request.peer_channels == 0) {
    request.peer_devices.clear();
    request.region_devices.clear();
  } else if (request.handles_are_free && request.one_process) {
    request.handles = DeviceHandles::ipc;  // plain memory, at one address for all ranks
  }
  return {};
}

void post_buffers(const CudaDriver &driver, Regions *regions, BufferPlace place, const CudaPlan &plan,
                  const DeviceCall &call, device::LoadStoreOperation &operation) {
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
  if (regions == nullptr && place == BufferPlace::peer_devices)
    operation.can_be_read = peers_can_read(driver, touched) ? 1 : 0;
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

uint64_t blocks_of_a_rank(uint32_t channel_count, const device::LoadStoreGeometry &load_store) {
  return std::max(channel_count, load_store.channel_count);
}

device::LoadStoreGeometry choose_load_store(const PlacedRequest &request, const BlockBudget &budget,
                                            uint32_t channel_count) {
  if (!wants_load_store(request)) return {};
  const uint32_t ranks = request.rank_count;
  const BufferPlace buffers = place_of_buffers(request);
  device::LoadStoreGeometry shape{ranks, channel_count, load_store_post_bytes, load_store_chunk_bytes};
  if (buffers == BufferPlace::device) return shape;
  const bool on_peers = shares_partly(buffers);
  shape.chunk_bytes = on_peers ? peer_chunk_bytes : unused_chunk_bytes;
  if (request.settings.channels != 0) return shape;  // the user requested this number
  const bool in_processes = buffers == BufferPlace::registered;
  if (in_processes && request.mps) return shape;
  const uint64_t neighbours = uint64_t{request.neighbours.in_process} + request.neighbours.in_others;
  const uint64_t half = budget.blocks / 2;
  const uint64_t left = in_processes ? half - std::min(half, request.claimed_blocks)
                                     : half_of_free_blocks(budget, request.claimed_blocks);
  const uint64_t most = on_peers ? peer_channels_max : device_channels_max;
  uint64_t wanted = std::min(blocks_for_each_rank(budget, left, neighbours), most);
  wanted = std::max<uint64_t>(wanted, channel_count);
  if (request.settings.max_ctas != 0) wanted = std::min<uint64_t>(wanted, request.settings.max_ctas);
  if (on_peers && request.peer_channels != 0) wanted = std::min<uint64_t>(wanted, request.peer_channels);
  shape.channel_count = static_cast<uint32_t>(wanted);
  return shape;
}

BlockClaim reserve_blocks(const CudaDevice &device, const PlacedRequest &request, uint32_t channel_count,
                          const BlockBudget &budget, device::LoadStoreGeometry &wanted) {
  if (place_of_buffers(request) != BufferPlace::registered || wanted.channel_count <= channel_count) return {};
  auto reserved = claim_blocks(device.uuid, wanted.channel_count, budget.blocks / 2);
  if (reserved.ok()) return std::move(reserved).value();
  wanted.channel_count = channel_count;
  return {};
}

Result<BlockClaim> claim_residency(const CudaDevice &device, const std::string &name, uint64_t channels,
                                   const Neighbours &neighbours, const BlockBudget &budget, BlockClaim &&reserved) {
  constexpr char advice[] =
      "; ask for fewer channels (RONDO_MAX_CTAS, RONDO_CHANNELS), put fewer ranks on the device, destroy communicators "
      "that are not needed, or use copies (RONDO_DEVICE_EXECUTOR=copy)";
  const uint32_t ranks = neighbours.in_process + neighbours.in_others;
  if (ranks * channels > budget.blocks)
    return Error{RONDO_ERROR_OUT_OF_RESOURCES, std::to_string(ranks) + " ranks on " + name + " need " +
                                                   std::to_string(ranks * channels) + " blocks with " +
                                                   std::to_string(channels) + " channels each, but " +
                                                   std::to_string(budget.blocks) + " can be resident at once" + advice};
  const uint64_t others = neighbours.position == 0 ? neighbours.in_others * channels : 0;
  auto claimed = claim_blocks(device.uuid, channels + others, budget.blocks, std::move(reserved));
  if (!claimed.ok()) return Error{claimed.error().status, "on " + name + " " + claimed.error().message + advice};
  return claimed;
}

uint32_t joint_blocks_max(const PlacedRequest &request, const BlockBudget &budget) {
  uint64_t most = budget.blocks;
  for (const uint32_t asked : {request.settings.channels, request.settings.max_ctas})
    if (asked != 0) most = std::min<uint64_t>(most, uint64_t{asked} * request.rank_count);
  return static_cast<uint32_t>(most);
}

uint32_t load_store_threads(bool one_shot, uint32_t post_words) {
  if (!one_shot) return block_threads_max;
  const uint32_t for_words = (post_words + warp_threads - 1) / warp_threads * warp_threads;  // few: no wide barrier
  return std::min(for_words + warp_threads, block_threads_max);  // a warp without words handles the headers
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
