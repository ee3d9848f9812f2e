// SPDX-License-Identifier: Apache-2.0
// This file declares the transport of a communicator on several hosts. It combines the shared memory of this host's
// ranks and a network to the other ranks. Rank numbers here are numbers in the whole group; only the transport of this
// host has numbers of its own.
//
// While a thread executes an operation, its waits make progress on the links. Another thread, the sentinel, serves the
// control plane. The sentinel also serves the links while no operation runs or the executing thread sleeps.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transports/net/control.h"
#include "transports/net/progress.h"
#include "src/links/transport.h"

namespace rondo::net {

struct GroupParts {
  uint32_t rank = 0;
  std::array<uint64_t, 2> communicator{};  ///< equal on all ranks, and different for each communicator
  std::vector<uint32_t> host_of;      ///< by rank
  std::vector<uint32_t> local_index;  ///< by rank, its number in `local`; no_local if it is on another host
  std::vector<std::string> names;     ///< by rank, for people: "rank 2 (host b, process 17)"
  std::unique_ptr<Transport> local;   ///< for this host's ranks
  ControlShare control;
  Settings settings{};
  bool messages = false;  ///< a link for messages with every rank of another host exists
  bool rings = true;  ///< true if threads that post also serve the links or ring the sentinel; devices do neither
};

inline constexpr uint32_t no_local = UINT32_MAX;

/// The links of blocks.
struct BlockLinks {
  std::vector<bool> linked{};  ///< by rank
  uint32_t channel_count = 1;
};

/// The near FIFOs of all links to ranks of other hosts.
class NearMemory {
 public:
  /// Makes the FIFOs for collectives and for blocks. `linked` says, by rank, whether collectives have a link.
  [[nodiscard]] static Result<NearMemory> make(const std::vector<bool> &linked, uint32_t channel_count,
                                               const ConnectionGeometry &geometry, const BlockLinks &blocks = {});
  /// Adds a link for messages with each rank of `linked`, and one for puts if `puts` is set. These links have separate
  /// memory, whose pages are used only once they are touched.
  [[nodiscard]] Result<void> add_messages(const std::vector<bool> &linked, const ConnectionGeometry &messages,
                                          const std::optional<ConnectionGeometry> &puts = std::nullopt);
  /// Returns how many bytes the FIFOs to and from `linked_count` ranks need.
  [[nodiscard]] static size_t bytes_for(size_t linked_count, uint32_t channel_count,
                                        const ConnectionGeometry &geometry);
  /// Returns all links, in the order of LinkUse.
  [[nodiscard]] const std::vector<NearLink> &links() const { return links_; }
  /// Returns the link of a channel of the collectives or blocks, or null.
  [[nodiscard]] const NearLink *find(uint32_t channel, uint32_t peer) const;
  /// Returns the link for messages, or null.
  [[nodiscard]] const NearLink *find_messages(uint32_t peer) const { return find(LinkUse::messages, peer); }
  /// Returns the link for puts, or null.
  [[nodiscard]] const NearLink *find_puts(uint32_t peer) const { return find(LinkUse::puts, peer); }
  [[nodiscard]] NetworkMemory memory() const {
    NetworkMemory memory{mapping_, {mapping_->get().address, mapping_->get().bytes}, device_};
    if (message_mapping_ == nullptr) return memory;
    memory.message_owner = message_mapping_;
    memory.message_bytes = {message_mapping_->get().address, message_mapping_->get().bytes};
    return memory;
  }

  /// Returns how many bytes the slots of the links would take in device memory.
  [[nodiscard]] size_t device_bytes() const;
  /// Puts slots into device memory of at least device_bytes(). Null puts them back into host memory.
  void set_device_memory(std::shared_ptr<const RdmaMemory> device);

 private:
  [[nodiscard]] const NearLink *find(LinkUse use, uint32_t peer) const;

  std::shared_ptr<const Mapping> mapping_;
  std::shared_ptr<const Mapping> message_mapping_;
  std::shared_ptr<const RdmaMemory> device_;
  std::vector<NearLink> links_;
};

/// Makes the transport, and starts its sentinel. `network` serves memory.links().
[[nodiscard]] Result<std::unique_ptr<Transport>> make_group_transport(GroupParts parts, NearMemory memory,
                                                                      std::unique_ptr<Network> network);

}  // namespace rondo::net
