// SPDX-License-Identifier: Apache-2.0
#include "cuda/executors/residency.h"

#include <algorithm>
#include <vector>

#include "cuda/driver/shared_table.h"
#include "cuda/executors/connection_shape.h"
#include "cuda/executors/load_store_shape.h"
#include "src/base/log.h"

namespace rondo::cuda {
namespace {

// If peers on other devices cannot read a buffer, the call uses places, with areas for each channel. For two ranks and
// 32 channels, a place has 8 MiB. 32 blocks have 1 MiB in flight (32 KiB each), which takes some 2 us at 450 GB/s.
constexpr uint32_t peer_channels_max = 32;

/// Returns whether the number of channels is given: by the user, or by links to other hosts.
bool has_fixed_channels(const PlacedRequest &request) {
  return request.settings.channels != 0 || !request.on_one_node();
}

SharedTable<std::string, ClaimGroup> &groups() {
  static auto *const all = new SharedTable<std::string, ClaimGroup>;
  return *all;
}

}  // namespace

bool agrees_on_channels(const PlacedRequest &request) {
  return request.executor == RONDO_DEVICE_EXECUTOR_KERNEL && request.rank_count > 1 &&
         (!has_fixed_channels(request) || agrees_on_peers(request));
}

ChannelCounts wanted_channels(const PlacedRequest &request, const BlockBudget &budget, bool can_load_store) {
  const uint32_t given = request.on_one_node() ? request.settings.channels : request.links->channel_count();
  const uint32_t connections = connection_channels(given, request.settings.max_ctas);
  ChannelCounts wanted{connections, 0};
  const uint64_t limit = request.settings.max_ctas != 0 ? request.settings.max_ctas : UINT64_MAX;
  const uint64_t ranks = uint64_t{request.neighbours.in_process} + request.neighbours.in_others;
  const uint64_t part = std::min(budget.multiprocessors / ranks, limit);
  const bool is_fixed = has_fixed_channels(request);
  const bool all_here = request.neighbours.in_process == request.rank_count && request.on_one_node();
  const BufferPlace buffers = wants_load_store(request) ? place_of_buffers(request) : BufferPlace::device;
  // If `spares` is true, all collectives use load_store, and the slots of many connections would take much memory.
  const bool spares = can_load_store && buffers == BufferPlace::shared_device && is_frugal(request);
  // With MPS, no process knows what other processes claim.
  if (!is_fixed && all_here && !spares && !request.mps && request.rank_count > 1)
    wanted.connections =
        std::max(connections, static_cast<uint32_t>(std::min<uint64_t>(part, default_channels_max)));
  if (!wants_load_store(request) || !can_load_store) return wanted;
  wanted.load_store = wanted.connections;
  const bool shares = buffers != BufferPlace::device && !(buffers == BufferPlace::registered && request.mps);
  if (is_fixed || !shares) return wanted;
  const uint64_t most = shares_partly(buffers) ? peer_channels_max : device_channels_max;
  wanted.load_store = std::max(connections, static_cast<uint32_t>(std::min(part, most)));
  return wanted;
}

Result<std::shared_ptr<ClaimGroup>> ClaimGroup::join(const CudaDevice &device, const std::string &name,
                                                     const PlacedRequest &request, const BlockBudget &budget,
                                                     const ChannelCounts &wanted) {
  const Neighbours &here = request.neighbours;
  BlockWish wish;
  wish.rank_counts.assign(here.in_process, 1);
  wish.rank_counts.front() += here.in_others;
  wish.most = wanted.blocks();
  wish.least = has_fixed_channels(request) ? wish.most : 1;
  const auto claim = [&]() -> Result<std::shared_ptr<ClaimGroup>> {
    auto claims = claim_blocks(device.uuid, budget, wish);
    if (claims.ok()) return std::make_shared<ClaimGroup>(std::move(claims).value());
    return Error{claims.error().status,
                 "on " + name + " " + claims.error().message +
                     "; destroy communicators that are not needed, let each have fewer channels (RONDO_MAX_CTAS, "
                     "RONDO_CHANNELS), put fewer ranks on the device, or use copies (RONDO_DEVICE_EXECUTOR=copy)"};
  };
  const auto &secret = request.secret.bytes;
  std::string key(reinterpret_cast<const char *>(secret.data()), secret.size());  // with the prefix it is unique
  key += request.key_prefix + "/" + std::to_string(here.first);
  return groups().find_or_make(key, claim);
}

Result<ChannelCounts> agree_on_channels(const PrimaryContext &context, ChannelCounts own, InfoExchange &info_exchange,
                                        PlacedRequest &request) {
  if (!agrees_on_channels(request)) return own;
  std::vector<PrimaryContext> peers;  // held until the ranks on these devices have their own
  for (const CuDevice peer : request.peer_devices) {
    if (!agrees_on_peers(request)) break;
    auto opened = open_peer_device(context, peer);
    if (opened.ok()) {
      peers.push_back(std::move(opened).value());
      continue;
    }
    log::info({log::Subsystem::device, request.rank}, "buffers are not shared: " + opened.error().message);
    own.load_store = 0;
  }
  RONDO_TRY_ASSIGN(const auto infos, info_exchange.infos(peers_key, own));
  for (const ChannelCounts &info : infos) {
    own.connections = std::min(own.connections, info.connections);
    own.load_store = std::min(own.load_store, info.load_store);
  }
  if (!agrees_on_peers(request)) return own;
  if (own.load_store == 0) {
    request.peer_devices.clear();
    request.shares_regions = false;
    own.load_store = own.connections;  // for places, if load_store was requested
  } else if (request.handles_are_free && request.one_process) {
    request.handles = DeviceHandles::ipc;  // plain memory, at one address for all
  }
  return own;
}

}  // namespace rondo::cuda
