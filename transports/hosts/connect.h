// SPDX-License-Identifier: Apache-2.0
// Connects the ranks of a communicator that is on several hosts: shared memory inside of a host, a network between
// them. The control plane is over TCP, whatever the network.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/base/config.h"
#include "src/bootstrap/store/store.h"
#include "transports/hosts/congestion.h"
#include "src/links/init_context.h"
#include "transports/net/join.h"
#include "transports/net/overlay.h"
#include "transports/net/tcp_state.h"
#include "src/links/rdma_memory.h"
#include "src/links/transport.h"

namespace rondo::hosts {

/// The infos of the group have the same number of network interfaces, one at least.
struct GroupRequest : InitContext {
  std::vector<bool> linked{};  ///< by rank, whether collectives send to it on another host; equal at both ends
  bool messages = false;       ///< each two ranks of different hosts have a link for messages; equal on all
  const net::NetworkKind *network = nullptr;
  std::vector<std::string> near_ib_devices{};  ///< of verbs
  Congestion congestion{};                     ///< of TCP
  /// Allocates slots of links to other hosts, if they are in memory of a device.
  std::function<Result<std::shared_ptr<const RdmaMemory>>(size_t bytes)> allocate_rdma_memory{};
  uint32_t mesh_hosts_max = net::mesh_hosts_max;  ///< more hosts than that have control connections as in a ring

  /// Returns whether kernels of a device post to the links.
  [[nodiscard]] bool on_device() const { return settings.device != RONDO_DEVICE_HOST; }
};

/// The spread of a group's ranks over its hosts.
struct Spread {
  uint32_t rank_count = 2;
  uint32_t host_ranks_max = 1;  ///< of the host that has the most
  uint32_t host_ranks_min = 1;
  NetworkChoice network = NetworkChoice::automatic;
  uint32_t path_count = 1;
};

/// Returns the number of connections, or queue pairs, between two linked ranks.
[[nodiscard]] uint32_t path_count(const Config &config);

/// The most memory that a rank's near FIFOs take while slots are not at their smallest. All of it is registered with
/// devices and network cards.
inline constexpr size_t near_memory_bytes_max = size_t{32} << 20;

/// Returns the slots of every link of a group on several hosts. They are equal inside of hosts and between them, since
/// a plan is for slots of one size. A count or size that is not 0 is taken as it is.
[[nodiscard]] ConnectionGeometry choose_slots(const Spread &spread, uint32_t channel_count, uint32_t slot_count,
                                              uint32_t slot_bytes);

/// Returns the slots of links for messages, in hosts and between them, in a group whose other links have `geometry`.
[[nodiscard]] ConnectionGeometry choose_message_slots(const ConnectionGeometry &geometry, NetworkChoice network,
                                                      uint32_t rank_count);

/// Connects the ranks. `local` connects this host's ranks, with the geometry that all hosts have.
[[nodiscard]] Result<std::unique_ptr<Transport>> connect(const GroupRequest &request, std::unique_ptr<Transport> local,
                                                         Store &store);

}  // namespace rondo::hosts
