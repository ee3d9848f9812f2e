// SPDX-License-Identifier: Apache-2.0
// The transport of a communicator whose ranks are on several hosts: shared memory among the ranks of this host, and a
// network to the others. Ranks are counted in the whole group here; the transport of this host counts its own.
//
// Progress is made by the thread that executes an operation, from its waits. A thread of its own, the sentinel, serves
// the control plane, and the links as well while no operation runs or while the executing thread sleeps.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "transports/net/control.h"
#include "transports/net/progress.h"
#include "src/links/transport.h"

namespace rondo::net {

struct GroupParts {
  uint32_t rank = 0;
  std::array<uint64_t, 2> communicator{};  ///< the same number on all ranks, and another for each communicator
  std::vector<uint32_t> host_of;      ///< by rank
  std::vector<uint32_t> local_index;  ///< by rank: its number in `local`, or no_local on another host
  std::vector<std::string> names;     ///< by rank, for people: "rank 2 (host b, process 17)"
  std::unique_ptr<Transport> local;   ///< of this host's ranks
  ControlShare control;
  uint32_t mesh_hosts_max = net::mesh_hosts_max;
  Settings settings{};
  bool messages = false;  ///< links for messages exist, with every rank of another host
  bool rings = true;  ///< threads that post to the links serve them or ring the sentinel; a device does neither
};

inline constexpr uint32_t no_local = UINT32_MAX;

/// Near FIFOs for all links to ranks of other hosts.
class NearMemory {
 public:
  /// Makes the FIFOs. `linked` is indexed by rank, as in JoinRequest.
  [[nodiscard]] static Result<NearMemory> make(const std::vector<bool> &linked, uint32_t channel_count,
                                               const ConnectionGeometry &geometry);
  /// Adds a link for messages with each rank of `linked`, in memory of its own, which is used where it is touched.
  [[nodiscard]] Result<void> add_messages(const std::vector<bool> &linked, const ConnectionGeometry &geometry);
  /// Returns the bytes of FIFOs to and from `linked_count` ranks.
  [[nodiscard]] static size_t bytes_for(size_t linked_count, uint32_t channel_count,
                                        const ConnectionGeometry &geometry);
  /// Returns all links, those for messages last.
  [[nodiscard]] const std::vector<NearLink> &links() const { return links_; }
  /// Returns the link of a channel of the collectives, or null.
  [[nodiscard]] const NearLink *find(uint32_t channel, uint32_t peer) const;
  /// Returns the link for messages, or null.
  [[nodiscard]] const NearLink *find_messages(uint32_t peer) const;
  [[nodiscard]] NetworkMemory memory() const {
    NetworkMemory memory{mapping_, {mapping_->get().address, mapping_->get().bytes}, device_};
    if (message_mapping_ == nullptr) return memory;
    memory.message_owner = message_mapping_;
    memory.message_bytes = {message_mapping_->get().address, message_mapping_->get().bytes};
    return memory;
  }

  /// Returns the bytes of the slots that links would have in memory of a device.
  [[nodiscard]] size_t device_bytes() const;
  /// Sets memory of at least device_bytes(); null takes it away.
  void set_device_memory(std::shared_ptr<const RdmaMemory> device);

 private:
  std::shared_ptr<const Mapping> mapping_;
  std::shared_ptr<const Mapping> message_mapping_;
  std::shared_ptr<const RdmaMemory> device_;
  std::vector<NearLink> links_;
};

/// Starts the sentinel. `network` serves memory.links().
[[nodiscard]] Result<std::unique_ptr<Transport>> make_group_transport(GroupParts parts, NearMemory memory,
                                                                      std::unique_ptr<Network> network);

}  // namespace rondo::net
