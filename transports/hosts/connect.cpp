// SPDX-License-Identifier: Apache-2.0
#include "transports/hosts/connect.h"

#include <sodium.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "src/bootstrap/address.h"
#include "src/bootstrap/bytes.h"
#include "src/bootstrap/store/store.h"
#include "transports/hosts/connect_steps.h"
#include "transports/hosts/control_share.h"
#include "transports/hosts/mesh.h"
#include "transports/net/net_transport.h"
#include "transports/shm/shm_transport.h"

namespace rondo::hosts {
namespace {

constexpr uint32_t preferred_slot_bytes = 16 * 1024;  // TCP takes this much with its header in one call
constexpr uint32_t pair_slot_bytes = 512 * 1024;      // between two ranks only (docs/lab/between-hosts.md)
constexpr uint32_t pair_slot_count_of_verbs = 2;      // all slots are registered, and ulimit -l is often 8 MiB
// These bound the memory of a rank's slots for messages, unless the slots have their smallest size already. The first
// bound is for verbs, which registers all slots. Other networks touch only the slots in use.
constexpr size_t registered_message_bytes_max = size_t{2} << 20, message_bytes_max = size_t{8} << 20;
constexpr size_t message_slot_bytes_min = 4096;

// Besides its connections, a rank opens a few descriptors, such as the memory of the control plane and the sockets that
// pass this memory on. Each rail adds a listener.
constexpr size_t descriptor_slack = 16;

/// Says whether slots are large. They are for two ranks, except over verbs with several queue pairs. A link has only
/// two large slots over verbs, but each queue pair needs a slot of its own in flight.
bool wants_large_slots(const Spread &spread) {
  return spread.rank_count == 2 && (spread.network != NetworkChoice::verbs || spread.path_count == 1);
}

/// Returns the geometry without slots of `ll`, since a network moves whole slots.
ConnectionGeometry near_geometry(ConnectionGeometry geometry) {
  geometry.ll_slot_bytes = 0;
  return geometry;
}

/// Returns this communicator's secret for `use`, derived from the secret that all ranks of the job know.
Secret secret_of(const char *use, const InitContext &context) {
  const Secret &job = context.secret;
  const std::string input = use + context.key_prefix;
  Secret secret;
  crypto_generichash(raw(secret.bytes.data()), secret.bytes.size(), raw(bytes_of(input).data()), input.size(),
                     raw(job.bytes.data()), job.bytes.size());
  return secret;
}

/// Says for each rank whether it is on another host.
std::vector<bool> far_ranks(const GroupRequest &request) {
  std::vector<bool> far(request.rank_count);
  for (uint32_t rank = 0; rank < request.rank_count; ++rank)
    far[rank] = request.group.node_of(rank) != request.group.node_of(request.rank);
  return far;
}

/// Makes the near FIFOs of all links.
Result<net::NearMemory> make_links(const GroupRequest &request, const Links &local) {
  const ConnectionGeometry geometry = near_geometry(local.geometry());
  net::BlockLinks blocks;
  if (request.messages) {
    blocks.linked = far_ranks(request);
    for (uint32_t rank = 0; rank < request.rank_count; ++rank)
      if (request.linked[rank]) blocks.linked[rank] = false;
    if (request.on_device()) blocks.channel_count = local.channel_count();  // kernels divide large blocks
  }
  RONDO_TRY_ASSIGN(auto memory, net::NearMemory::make(request.linked, local.channel_count(), geometry, blocks));
  if (!request.messages) return memory;
  const NetworkChoice network = request.network->choice;
  const ConnectionGeometry messages = choose_message_slots(geometry, network, request.rank_count);
  std::optional<ConnectionGeometry> puts;  // none on a device, whose streams do not post to other hosts
  if (!request.on_device()) puts = choose_put_slots(messages, network);
  RONDO_TRY(memory.add_messages(far_ranks(request), messages, puts));
  return memory;
}

/// Returns the host of each rank.
std::vector<uint32_t> hosts_of(const GroupInfo &group) {
  return {group.node_of_ranks().begin(), group.node_of_ranks().end()};
}

/// Returns each rank's number among the ranks of this host, or net::no_local for a rank of another host.
std::vector<uint32_t> local_indices(const GroupRequest &request) {
  const GroupInfo &group = request.group;
  std::vector<uint32_t> indices(group.rank_count(), net::no_local);
  for (const uint32_t rank : group.ranks_of(group.node_of(request.rank))) indices[rank] = group.index_on_node(rank);
  return indices;
}

/// Returns this rank's request to make its network. `linked` has the meaning of JoinRequest::linked.
net::JoinRequest join_request(const GroupRequest &request, const std::vector<bool> &linked,
                              const std::vector<std::string> &names) {
  net::JoinRequest join{request, linked, names, {}, request.near_ib_devices};
  join.secret = secret_of("rondo links ", request);
  for (const NetworkInterface &each : request.group.infos[request.rank].interfaces)
    join.addresses.push_back(each.address);
  return join;
}

/// Sends a whole slot each way over each data connection. Peers without a data connection exchange the slot over their
/// control connection. After the call the control connections are ready for use.
Result<void> fly_before(const GroupRequest &request, const MeshRequest &mesh_request, const Mesh &mesh,
                        size_t slot_bytes, Store &store) {
  std::string own_name = request.group.infos[request.rank].describe(request.rank);
  // If there are several rails, the name of the peer contains the addresses of both ends.
  if (mesh_request.rail_count() == 1) own_name += " at " + mesh_request.own_address(0);
  const PreflightRequest flight{own_name, slot_bytes, request.deadline_ns};
  std::vector<const net::PeerSocket *> sockets;
  for (const net::PeerSocket &each : mesh.data) sockets.push_back(&each);
  for (const net::PeerSocket &each : mesh.control)
    if (mesh_request.sockets_per_rail == 0 || !mesh_request.linked[each.peer]) sockets.push_back(&each);
  RONDO_TRY(preflight(sockets, flight, store));
  for (const net::PeerSocket &each : mesh.control)
    RONDO_TRY(set_control_options(each.socket.get(), request.settings.network_timeout_ns));
  return {};
}

/// Says for each rank whether it and this rank are the first ranks of two hosts.
std::vector<bool> controlled_ranks(const GroupRequest &request) {
  const GroupInfo &group = request.group;
  std::vector<bool> controlled(group.rank_count());
  if (group.index_on_node(request.rank) != 0) return controlled;
  for (uint32_t rank = 0; rank < group.rank_count(); ++rank)
    controlled[rank] = group.index_on_node(rank) == 0 && group.node_of(rank) != group.node_of(request.rank);
  return controlled;
}

/// Checks that this rank may have enough descriptors for its connections. Without this check, the error would occur
/// during connecting, when nobody knows how many more descriptors are needed.
Result<void> check_descriptors(const MeshRequest &request) {
  const auto linked = static_cast<size_t>(std::ranges::count(request.linked, true));
  const size_t wanted = request.group.node_count() - 1 + linked * request.data_sockets() + descriptor_slack +
                        request.rail_count();
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  std::error_code error;
  const std::filesystem::directory_iterator first("/proc/self/fd", error);
  const auto open = static_cast<size_t>(std::distance(first, std::filesystem::directory_iterator()));
  if (error || open + wanted <= limit.rlim_cur) return {};
  return Error{RONDO_ERROR_OUT_OF_RESOURCES,
               request.group.infos[request.rank].describe(request.rank) + " needs " + std::to_string(wanted) +
                   " more descriptors for its connections with " + std::to_string(request.group.node_count() - 1) +
                   " hosts, and " + std::to_string(open) + " are open, but the limit is " +
                   std::to_string(limit.rlim_cur) + "; raise that limit to at least " + std::to_string(open + wanted) +
                   " (ulimit -n)"};
}

/// Shares the control plane, and checks that whole slots pass. If a pair of ranks fails, every rank gets an error that
/// names the pair.
Result<net::ControlShare> check_and_share(const GroupRequest &request, const MeshRequest &mesh_request, Mesh &mesh,
                                          size_t slot_bytes, Store &store) {
  std::vector<net::PeerSocket> &control = mesh.control;
  std::ranges::sort(control, {}, [&](const net::PeerSocket &each) { return request.group.node_of(each.peer); });
  std::vector<int> sockets;
  for (const net::PeerSocket &each : control) sockets.push_back(each.socket.get());
  auto shared = share_control({request.rank, hosts_of(request.group), request.key_prefix, request.deadline_ns},
                              sockets, store);
  const Result<void> flown = shared.ok() ? fly_before(request, mesh_request, mesh, slot_bytes, store)
                                         : Result<void>(shared.error());
  RONDO_TRY(check_outcomes(store, request.key_prefix + "/preflight", request.rank, request.rank_count, flown,
                           request.deadline_ns));
  net::ControlShare share = std::move(shared).value().share;
  share.sockets.resize(request.group.node_count());
  for (net::PeerSocket &each : control) share.sockets[request.group.node_of(each.peer)] = std::move(each.socket);
  return share;
}

}  // namespace

uint32_t path_count(const Config &config) { return static_cast<uint32_t>(rail_count(config)) * config.sockets; }

ConnectionGeometry choose_slots(const Spread &spread, uint32_t channel_count, uint32_t slot_count,
                                uint32_t slot_bytes, uint32_t halvings) {
  const bool large = wants_large_slots(spread) && slot_bytes == 0;
  if (large && slot_count == 0 && spread.network == NetworkChoice::verbs) slot_count = pair_slot_count_of_verbs;
  const auto for_ranks = [&](uint32_t rank_count) {
    return shm::choose_segment_shape(rank_count, channel_count, slot_count, slot_bytes, halvings).geometry;
  };
  // Begins with the geometry of ranks that all share memory. Small slots then grow as far as the shared memory of each
  // host and the memory of each rank allow. Two ranks have room for larger slots, which need fewer calls of the network
  // for each byte.
  ConnectionGeometry geometry = for_ranks(spread.rank_count);
  if (slot_bytes != 0) return geometry;
  ConnectionGeometry larger = geometry;
  larger.slot_bytes =
      large ? std::max(pair_slot_bytes >> halvings, geometry.slot_bytes)
            : std::min(preferred_slot_bytes, for_ranks(spread.host_ranks_max).slot_bytes);
  const uint32_t remote_max = spread.rank_count - spread.host_ranks_min;  // the most ranks with which a rank has links
  while (larger.slot_bytes > geometry.slot_bytes &&
         net::NearMemory::bytes_for(remote_max, channel_count, near_geometry(larger)) >
             near_memory_bytes_max >> halvings)
    larger.slot_bytes /= 2;
  geometry.slot_bytes = std::max(geometry.slot_bytes, larger.slot_bytes);
  return geometry;
}

uint64_t hosts_memory_bytes(const Spread &spread, uint32_t channel_count, const MemoryChoice &choice, bool messages) {
  const uint32_t here = spread.host_ranks_max, far = spread.rank_count - spread.host_ranks_min;
  const ConnectionGeometry slots = choose_slots(spread, channel_count, choice.slot_count,
                                                static_cast<uint32_t>(choice.slot_bytes), choice.halvings);
  shm::SegmentShape shape =
      shm::choose_segment_shape(here, channel_count, slots.slot_count, slots.slot_bytes, choice.halvings);
  shape.group_rank_count = spread.rank_count;
  uint64_t far_bytes = net::NearMemory::bytes_for(far, channel_count, near_geometry(slots));
  if (messages) {
    const ConnectionGeometry of_messages = choose_message_slots(slots, spread.network, spread.rank_count);
    shape.message_slot_bytes = of_messages.slot_bytes;
    far_bytes += net::NearMemory::bytes_for(far, 1, of_messages) +
                 net::NearMemory::bytes_for(far, 1, choose_put_slots(of_messages, spread.network));
  }
  return shape.bytes() + shape.message_bytes() + here * far_bytes;
}

Result<MemoryChoice> choose_hosts_memory(const Spread &spread, uint32_t channel_count, const Config &config,
                                         bool messages) {
  return choose_memory(config, "of a host's memory", [&](const MemoryChoice &choice) {
    return hosts_memory_bytes(spread, channel_count, choice, messages);
  });
}

ConnectionGeometry choose_message_slots(const ConnectionGeometry &geometry, NetworkChoice network,
                                        uint32_t rank_count) {
  const size_t budget = network == NetworkChoice::verbs ? registered_message_bytes_max : message_bytes_max;
  const size_t share = budget / (size_t{2} * (rank_count - 1) * geometry.slot_count);
  const auto fitting = static_cast<uint32_t>(std::bit_floor(std::max(share, message_slot_bytes_min)));
  return {geometry.slot_count, std::min(geometry.slot_bytes, fitting), 0};
}

ConnectionGeometry choose_put_slots(const ConnectionGeometry &messages, NetworkChoice network) {
  constexpr uint32_t least = 256;  // the frame of a put takes some of it
  constexpr auto registered = static_cast<uint32_t>(message_slot_bytes_min);
  const uint32_t most = network == NetworkChoice::verbs ? registered : messages.slot_bytes;
  return {messages.slot_count, std::max(std::min(messages.slot_bytes, most), least), 0};
}

Result<void> check_host_count(uint32_t host_count) {
  if (host_count <= net::hosts_max) return {};
  return Error{RONDO_ERROR_UNSUPPORTED, "this communicator has ranks on " + std::to_string(host_count) +
                                            " hosts, but a communicator spans at most " +
                                            std::to_string(net::hosts_max) +
                                            "; use several communicators, each on a part of the hosts"};
}

Result<std::unique_ptr<Transport>> connect(const GroupRequest &request, std::unique_ptr<Transport> local,
                                           Store &store) {
  MeshRequest mesh_request{request, request.messages ? far_ranks(request) : request.linked, controlled_ranks(request)};
  mesh_request.secret = secret_of("rondo mesh ", request);
  mesh_request.congestion = request.congestion;
  mesh_request.sockets_per_rail = request.network->needs_sockets ? request.settings.sockets : 0;
  RONDO_TRY(check_descriptors(mesh_request));
  RONDO_TRY_ASSIGN(Mesh mesh, connect_mesh(mesh_request, store));
  // Other ranks may take long to connect. Without this wait, a rank would take a connection to them for stalled.
  RONDO_TRY(store.gather(request.key_prefix + "/connected", request.rank, request.rank_count, Bytes{},
                         request.deadline_ns));
  // The control plane's timeout ends first, so that its report comes before a loss of the data sockets.
  for (net::PeerSocket &each : mesh.data) each.patience_ns = request.settings.network_timeout_ns * 5 / 2;

  RONDO_TRY_ASSIGN(auto control, check_and_share(request, mesh_request, mesh, local->links().geometry().slot_bytes,
                                                 store));
  RONDO_TRY_ASSIGN(auto memory, make_links(request, local->links()));
  net::GroupParts parts;
  parts.rank = request.rank;
  const Secret id = secret_of("rondo communicator ", request);
  static_assert(sizeof parts.communicator <= sizeof id.bytes);
  std::memcpy(parts.communicator.data(), id.bytes.data(), sizeof parts.communicator);
  parts.host_of = hosts_of(request.group);
  parts.local_index = local_indices(request);
  parts.messages = request.messages;
  parts.rings = !request.on_device();
  parts.settings = request.settings;
  for (uint32_t rank = 0; rank < request.rank_count; ++rank)
    parts.names.push_back(request.group.infos[rank].describe(rank));
  RONDO_TRY_ASSIGN(auto network, make_network(request, join_request(request, mesh_request.linked, parts.names),
                                              std::move(mesh.data), memory, store));
  parts.local = std::move(local);
  parts.control = std::move(control);
  return net::make_group_transport(std::move(parts), std::move(memory), std::move(network));
}

}  // namespace rondo::hosts
