// SPDX-License-Identifier: Apache-2.0
#include "src/core/registry.h"

#include <algorithm>
#include <array>

#include "cuda/driver/pointer_probe.h"
#include "cuda/executors/cuda_executor.h"
#include "cuda/transport/rdma_memory.h"
#include "cuda/transport/shared_memory.h"
#include "src/bootstrap/address.h"
#include "src/engine/host_executor.h"
#include "src/plan/tuner.h"
#include "src/topo/host.h"
#include "src/topo/topology.h"
#include "transports/hosts/connect.h"
#include "transports/shm/shm_transport.h"
#include "transports/tcp/tcp_network.h"
#include "transports/ucx/ucx_network.h"
#include "transports/verbs/verbs_network.h"

namespace rondo {
namespace {

constexpr uint32_t default_channel_count = 2;  // for the two trees of the double tree

/// The networks between hosts. "auto" chooses the first one. A new network needs an entry here.
constexpr std::array networks{
    net::NetworkKind{NetworkChoice::tcp, "tcp", true, false,
                     [](const auto &links, const net::JoinRequest &, std::vector<net::PeerSocket> sockets, Store &) {
                       return tcp::make_network(links, std::move(sockets));
                     }},
    net::NetworkKind{NetworkChoice::ucx, "ucx", false, true,
                     [](const auto &links, const net::JoinRequest &request, std::vector<net::PeerSocket>,
                        Store &store) { return ucx::make_network(links, request, store); }},
    net::NetworkKind{NetworkChoice::verbs, "verbs", false, true,
                     [](const auto &links, const net::JoinRequest &request, std::vector<net::PeerSocket>,
                        Store &store) { return verbs::make_network(links, request, store); }},
};

const net::NetworkKind &network_of(const Settings &settings) {
  const auto *const found = std::ranges::find(networks, settings.network, &net::NetworkKind::choice);
  return found == networks.end() ? networks.front() : *found;
}

/// Returns the RDMA devices near this rank. These devices are preferred if a subnet has several devices. Returns none
/// if the user has named devices, the network is not verbs, or hwloc fails.
std::vector<std::string> near_devices(const Settings &settings) {
  if (settings.network != NetworkChoice::verbs || !settings.ib_devices.empty()) return {};
  const auto topology = discover_nics(settings);
  return topology.ok() ? near_rdma_devices(topology.value()) : std::vector<std::string>();
}

/// Returns the number of channels of links between hosts. It is at most channels_max, because only the blocks of a
/// device's kernels could use more channels.
uint32_t link_channel_count(const Settings &settings) {
  return std::clamp(settings.channels, default_channel_count, channels_max);
}

/// Returns, by rank, whether the rank is on another host and a link to it is permitted.
std::vector<bool> linked_ranks(const ConnectArgs &args) {
  std::vector<bool> linked = args.permitted.empty() ? std::vector<bool>(args.rank_count, true) : args.permitted;
  for (const uint32_t rank : args.group.ranks_of(args.group.node_of(args.rank))) linked[rank] = false;
  return linked;
}

/// Returns whether ranks of several hosts exchange messages. They do, unless there are too many ranks.
bool carries_messages(const GroupInfo &group) { return group.rank_count() <= message_ranks_max; }

/// Sets the slots of links. Plans depend on the slots, so all hosts must use equal slots, whatever their numbers of
/// ranks. On a single host, the transport shm chooses the slots.
Result<void> set_slots(const GroupInfo &group, const Settings &settings, shm::ConnectRequest &request) {
  if (group.one_node()) {
    RONDO_TRY_ASSIGN(const MemoryChoice choice,
                     shm::choose_host_memory(group.rank_count(), request.channel_count, settings));
    request.slot_count = choice.slot_count;
    request.slot_bytes = static_cast<uint32_t>(choice.slot_bytes);
    request.halvings = choice.halvings;
    return {};
  }
  hosts::Spread spread{group.rank_count(), 0, group.rank_count(), settings.network, hosts::path_count(settings)};
  for (uint32_t node = 0; node < group.node_count(); ++node) {
    const auto here = static_cast<uint32_t>(group.ranks_of(node).size());
    spread.host_ranks_max = std::max(spread.host_ranks_max, here);
    spread.host_ranks_min = std::min(spread.host_ranks_min, here);
  }
  RONDO_TRY_ASSIGN(const MemoryChoice choice, hosts::choose_hosts_memory(spread, request.channel_count, settings,
                                                                         carries_messages(group)));
  const ConnectionGeometry slots = hosts::choose_slots(spread, request.channel_count, choice.slot_count,
                                                       static_cast<uint32_t>(choice.slot_bytes), choice.halvings);
  request.slot_count = slots.slot_count;
  request.slot_bytes = slots.slot_bytes;
  request.halvings = choice.halvings;
  if (carries_messages(group))
    request.message_slot_bytes =
        hosts::choose_message_slots(slots, network_of(settings).choice, group.rank_count()).slot_bytes;
  return {};
}

/// Returns the error that explains why this rank has no network interface.
Error no_interface(const Settings &settings) {
  auto addresses = choose_addresses(settings.network_interface);
  if (!addresses.ok()) return std::move(addresses).error();
  return {RONDO_ERROR_SYSTEM, "the network interfaces of this host have changed meanwhile; try again"};
}

/// Refuses frame tags on a network that lacks them, because the user would rely on their protection.
Result<void> check_frame_tags(const Settings &settings) {
  if (!settings.frame_tags || network_of(settings).needs_sockets) return {};
  return Error{RONDO_ERROR_UNSUPPORTED, std::string("RONDO_FRAME_TAGS=on is for TCP, and RONDO_NETWORK is ") +
                                            network_name(settings) + "; leave one of them out"};
}

/// Makes the congestion control of links over TCP. Other networks ignore the setting.
Result<hosts::Congestion> congestion_of(const Settings &settings) {
  if (!network_of(settings).needs_sockets) return hosts::Congestion();
  return hosts::Congestion::make(settings.tcp_congestion);
}

WaitPolicy wait_policy_of(const Settings &settings, const GroupInfo &group, const Links &links) {
  WaitPolicy policy = group.oversubscribed       ? WaitPolicy::oversubscribed()
                      : links.needs_progress() ? WaitPolicy::dedicated_to_network()
                                               : WaitPolicy::dedicated();
  switch (settings.wait) {
    case WaitMode::automatic:
      break;
    case WaitMode::spin:
      policy = {128, UINT32_MAX, 0, false};
      break;
    case WaitMode::yield:
      policy = {8, 0, UINT32_MAX, false};
      break;
    case WaitMode::sleep:
      policy = {0, 0, 0, true};
      break;
  }
  policy.progresses = links.needs_progress();
  return policy;
}

EdgeRequest edge_request_of(const Settings &settings, const GroupInfo &group, const TuningTable *tuning) {
  const bool on_device = settings.device != RONDO_DEVICE_HOST;
  EdgeRequest request;
  request.node_of = group.node_of_ranks();
  request.channel_count = group.one_node() ? device_channels_max : link_channel_count(settings);
  request.oversubscribed = group.oversubscribed && !on_device;
  request.overrides = {settings.algorithm, settings.protocol, settings.channels, settings.chunk_bytes, settings.kernel};
  request.table = tuning;
  return request;
}

}  // namespace

const char *network_name(const Settings &settings) { return network_of(settings).name; }

std::vector<bool> permitted_ranks(const ConnectArgs &args) {
  if (args.group.one_node() && args.settings.device == RONDO_DEVICE_HOST) return {};
  return permitted_peers(edge_request_of(args.settings, args.group, args.tuning), args.rank);
}

bool joins_all_hosts(const Settings &settings, const GroupInfo &group, const TuningTable *tuning) {
  return group.one_node() || carries_messages(group) || joins_all_nodes(edge_request_of(settings, group, tuning));
}

Result<std::unique_ptr<Transport>> connect_ranks(const ConnectArgs &args, Store &store, SegmentTable &segments) {
  const GroupInfo &group = args.group;
  hosts::Congestion congestion;
  if (!group.one_node()) {
    RONDO_TRY(hosts::check_host_count(group.node_count()));
    RONDO_TRY(check_frame_tags(args.settings));
    RONDO_TRY_ASSIGN(congestion, congestion_of(args.settings));
  }
  const uint32_t node = group.node_of(args.rank);
  shm::ConnectRequest request;
  request.rank = group.index_on_node(args.rank);
  request.rank_count = static_cast<uint32_t>(group.ranks_of(node).size());
  request.group_rank_count = args.rank_count;
  request.channel_count = link_channel_count(args.settings);
  RONDO_TRY(set_slots(group, args.settings, request));
  request.mapping = args.settings.mapping;
  request.cross_memory = args.settings.cross_memory;
  request.key_prefix = args.key_prefix + (group.one_node() ? "" : "/node" + std::to_string(node));
  request.host_name = host_name();
  request.deadline_ns = args.deadline_ns;
  RONDO_TRY_ASSIGN(auto local, shm::connect(request, store, segments));
  if (group.one_node()) return local;
  if (group.infos[args.rank].interfaces.empty()) return no_interface(args.settings);
  hosts::GroupRequest several{args};
  several.linked = linked_ranks(args);
  several.messages = carries_messages(group);
  several.network = &network_of(args.settings);
  several.near_ib_devices = near_devices(args.settings);
  several.congestion = std::move(congestion);
  several.allocate_rdma_memory = [&settings = args.settings](size_t bytes) {
    return cuda::allocate_rdma_memory(settings.cuda_library, settings.device, bytes);
  };
  return hosts::connect(several, std::move(local), store);
}

Result<void> check_device(const Settings &settings) {
  if (settings.device == RONDO_DEVICE_HOST) return {};
  return cuda::check_device(settings.cuda_library, settings.device);
}

std::shared_ptr<Executor> make_host_executor(const Settings &settings, const GroupInfo &group, uint32_t rank,
                                             Links &links) {
  HostExecutor::Parts parts;
  parts.rank = rank;
  parts.rank_count = group.rank_count();
  parts.links = &links;
  parts.wait = wait_policy_of(settings, group, links);
  parts.oversubscribed = group.oversubscribed;
  if (const auto probe = cuda::PointerProbe::find(settings.cuda_library); probe.asks())
    parts.is_device_memory = [probe](const void *pointer) { return probe.is_device_memory(pointer); };
  return std::make_shared<HostExecutor>(std::move(parts));
}

Result<void *> allocate_device_memory(const Config &config, int32_t device, size_t bytes) {
  return cuda::allocate_for_peers(config.cuda_library, device, bytes);
}

Result<void> free_device_memory(void *pointer) { return cuda::free_for_peers(pointer); }

Result<std::shared_ptr<Executor>> connect_executor(const ConnectArgs &args, Store &store, Links &links) {
  if (args.settings.device == RONDO_DEVICE_HOST)
    return make_host_executor(args.settings, args.group, args.rank, links);
  cuda::DeviceRequest request{args};
  request.links = &links;
  request.permitted = args.permitted;
  request.measured_load_store =
      args.tuning != nullptr && args.tuning->wants_load_store(args.rank_count, BufferPlace::device);
  RONDO_TRY_ASSIGN(auto device, cuda::connect_device(request, store));
  return std::shared_ptr<Executor>(std::move(device));
}

}  // namespace rondo
