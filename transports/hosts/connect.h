// SPDX-License-Identifier: Apache-2.0
// This file connects the ranks of a communicator on several hosts. The ranks of a host use shared memory, and a network
// connects the hosts. The control plane uses TCP, whatever the network is.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/base/config.h"
#include "src/base/memory_limit.h"
#include "src/bootstrap/store/store.h"
#include "src/links/init_context.h"
#include "src/links/links.h"
#include "src/links/transport.h"
#include "transports/hosts/congestion.h"
#include "transports/net/join.h"
#include "transports/net/tcp_state.h"

namespace rondo::hosts {

/// The request to connect a group. The infos of all its ranks have the same number of network interfaces, at least one.
struct GroupRequest : InitContext {
  std::vector<bool> linked{};  ///< by rank, whether it is on another host and collectives send to it; same at both ends
  bool messages = false;       ///< true if any two ranks of different hosts have a link for messages; equal on all
  const net::NetworkKind *network = nullptr;
  std::vector<std::string> near_ib_devices{};  ///< for verbs
  Congestion congestion{};                     ///< for TCP
  /// Allocates the slots of links to other hosts, if these slots are in device memory.
  std::function<Result<std::shared_ptr<const RdmaMemory>>(size_t bytes)> allocate_rdma_memory{};

  /// Says whether kernels of a device post to the links.
  [[nodiscard]] bool on_device() const { return settings.device != RONDO_DEVICE_HOST; }
};

/// The spread of a group's ranks over its hosts.
struct Spread {
  uint32_t rank_count = 2;
  uint32_t host_ranks_max = 1;  ///< ranks of the host that has the most
  uint32_t host_ranks_min = 1;
  NetworkChoice network = NetworkChoice::automatic;
  uint32_t path_count = 1;
};

/// Returns the number of connections, or queue pairs, between two linked ranks.
[[nodiscard]] uint32_t path_count(const Config &config);

/// The most bytes that a rank's near FIFOs take, unless the slots already have their smallest size. Devices and network
/// cards register all of these bytes.
inline constexpr size_t near_memory_bytes_max = size_t{32} << 20;

/// Returns the size and number of the slots of every link of a group on several hosts. Links within a host and links
/// between hosts have the same slots, because a plan is made for slots of one size. A count or size that is not 0 is
/// kept. The budgets for memory are halved `halvings` times.
[[nodiscard]] ConnectionGeometry choose_slots(const Spread &spread, uint32_t channel_count, uint32_t slot_count,
                                              uint32_t slot_bytes, uint32_t halvings = 0);

/// Returns how many bytes max_memory_bytes limits on the host with the most ranks. They are the shared memory of its
/// ranks, with messages, and the near FIFOs of these ranks.
[[nodiscard]] uint64_t hosts_memory_bytes(const Spread &spread, uint32_t channel_count, const MemoryChoice &choice,
                                          bool messages);

/// Calls choose_memory() for the memory of the host with the most ranks.
[[nodiscard]] Result<MemoryChoice> choose_hosts_memory(const Spread &spread, uint32_t channel_count,
                                                       const Config &config, bool messages);

/// Returns the slots of links for messages, if the group's other links have `geometry`.
[[nodiscard]] ConnectionGeometry choose_message_slots(const ConnectionGeometry &geometry, NetworkChoice network,
                                                      uint32_t rank_count);

/// Returns the slots of links for puts, if the links for messages have `messages`.
[[nodiscard]] ConnectionGeometry choose_put_slots(const ConnectionGeometry &messages, NetworkChoice network);

/// Refuses a group on more than net::hosts_max hosts.
[[nodiscard]] Result<void> check_host_count(uint32_t host_count);

/// Connects the ranks. `local` connects the ranks of this host, and has the geometry that all hosts have.
[[nodiscard]] Result<std::unique_ptr<Transport>> connect(const GroupRequest &request, std::unique_ptr<Transport> local,
                                                         Store &store);

}  // namespace rondo::hosts
