// SPDX-License-Identifier: Apache-2.0
// This file declares the segment of a rank. It is memory on the rank's device for the connections on which the rank
// receives, for its ends of all links, and for plans. The other ranks write into these connections, and write or read
// the rank's load_store place (cuda/transport/shared_memory.h).
//
// Layout    connections          channel_count * sender_count(), by channel and sender; connection.h
//           link ends            channel_count * rank_count DeviceLinkEnds
//           progress             DeviceProgress
//           barrier              2 lines
//           place                for load_store, if it may run (cuda/kernels/load_store_place.h)
//           messages             connections and link ends for messages, if ranks exchange messages
//           regions              this rank's addresses of all ranks' regions, if ranks share buffers by regions
//           plans                plan_bytes, which Arena allocates
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cuda/kernels/load_store_place.h"
#include "cuda/kernels/operation.h"
#include "cuda/transport/host_links.h"
#include "cuda/transport/shared_memory.h"
#include "src/base/kernel_file.h"
#include "src/engine/executor.h"
#include "src/plan/plan.h"
#include "src/proto/connection.h"

namespace rondo::cuda {

struct SegmentShape {
  uint32_t rank_count = 1;
  uint32_t channel_count = 1;
  ConnectionGeometry geometry;
  device::LoadStoreGeometry load_store;
  /// With `device`, ranks do not share buffers. With any other value they do, and load_store uses the mode `shared`,
  /// except for one_shots (cuda/kernels/load_store_place.h).
  BufferPlace buffers = BufferPlace::device;
  uint32_t message_channels = 0;  ///< 0: ranks exchange no messages
  ConnectionGeometry message_geometry;
  uint64_t region_bytes = 0;  ///< Regions::table_bytes(), or 0
  uint64_t plan_bytes = 0;
  bool cleared = true;  ///< false: the content of fresh memory does not matter
  bool has_own_connections = true;  ///< false: a rank has no connections with itself, except for messages

  [[nodiscard]] bool shares_buffers() const { return buffers != BufferPlace::device; }
  [[nodiscard]] uint64_t connection_bytes() const;  ///< of one connection, rounded up
  [[nodiscard]] uint64_t message_connection_bytes() const;  ///< likewise
  /// Returns how many connections of a channel are in a segment.
  [[nodiscard]] uint32_t sender_count() const { return has_own_connections ? rank_count : rank_count - 1; }
  /// Returns the offset of a connection in the segment of its receiver.
  [[nodiscard]] uint64_t connection_offset(uint32_t channel, uint32_t sender, uint32_t receiver) const;
  [[nodiscard]] uint64_t ends_offset(uint32_t channel, uint32_t peer) const;
  [[nodiscard]] uint64_t progress_offset() const;
  [[nodiscard]] uint64_t barrier_offset(uint32_t which) const;
  [[nodiscard]] uint64_t place_offset() const;
  [[nodiscard]] uint64_t message_connection_offset(uint32_t channel, uint32_t sender) const;
  [[nodiscard]] uint64_t message_ends_offset() const;
  [[nodiscard]] uint64_t regions_offset() const;
  [[nodiscard]] uint64_t plans_offset() const;
  [[nodiscard]] uint64_t bytes() const;
};

/// The description of a segment that its rank sends to the others.
struct SegmentInfo {
  DeviceUuid uuid{};
  ProcessName process;
  uint64_t device = 0;
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint64_t mapped_bytes = 0;  ///< for vmm
  IpcMemoryHandle handle{};   ///< for ipc
  FdTicket ticket;            ///< for vmm
};

/// The links by which a rank's device reaches the other ranks.
struct SegmentLinks {
  std::vector<bool> permitted;            ///< by rank, whether a schedule links it (src/plan/tuner.h); if empty, all
  const NetworkLinks *network = nullptr;  ///< to the ranks of other nodes
  bool one_process = false;               ///< all ranks of this node are threads of one process, so none opens a handle
  const HostLinks *host = nullptr;        ///< to ranks of this node whose memory the device does not reach; or null
};

class Segment {
 public:
  /// Allocates and clears the segment, describes it to the other ranks, and opens the segments of permitted peers on
  /// this node. If load_store may run, or ranks exchange messages, it opens all segments of this node, except of ranks
  /// that `links.host` reaches. Every rank calls it. It works on `stream`.
  [[nodiscard]] static Result<Segment> connect(const PrimaryContext &context, CuStream stream, const DeviceUuid &uuid,
                                               const SegmentShape &shape, DeviceHandles handles,
                                               const SegmentLinks &links, InfoExchange &info_exchange);

  [[nodiscard]] const SegmentShape &shape() const { return shape_; }
  [[nodiscard]] DevicePointer address() const { return own_->address(); }
  /// Returns where this rank sees the segment of `rank`. 0: no plan links the two, or their link is in host memory.
  [[nodiscard]] DevicePointer address_of(uint32_t rank) const { return peers_[rank]; }
  /// Says whether peers must stop using this rank's segment when the rank ends. CUDA IPC memory ends with its rank.
  [[nodiscard]] bool ends_with_owner() const { return !own_->is_vmm() && !opened_.empty(); }
  [[nodiscard]] uint64_t ends_address(uint32_t channel, uint32_t peer) const {
    return address() + shape_.ends_offset(channel, peer);
  }
  /// Returns the address of the link ends for messages, by channel and peer.
  [[nodiscard]] uint64_t message_ends_address() const { return address() + shape_.message_ends_offset(); }

  [[nodiscard]] uint32_t rank() const { return rank_; }
  /// Returns the size of this rank's memory, as the driver has allocated it.
  [[nodiscard]] uint64_t allocated_bytes() const { return own_->is_vmm() ? own_->bytes() : shape_.bytes(); }
  /// Returns whether suspend() gives the memory back. CUDA IPC cannot allocate memory at given addresses again. All
  /// ranks get the same answer.
  [[nodiscard]] bool can_suspend() const { return own_->is_vmm(); }
  /// Copies the content to the host, and gives the memory back. It works on `stream`. No rank may use the segment. The
  /// memory is free when all ranks of this node that had opened it have called suspend().
  [[nodiscard]] Result<void> suspend(const PrimaryContext &context, CuStream stream);
  /// Allocates the memory again, at the same addresses, writes the content, and opens the segments of the same peers.
  /// Every rank calls it. It works on `stream`. The segment may be used when all ranks have succeeded.
  [[nodiscard]] Result<void> resume(const PrimaryContext &context, CuStream stream, InfoExchange &info_exchange);

  /// Returns RONDO_ERROR_INTERNAL if the plan has a link with a rank of this node whose segment was not opened.
  [[nodiscard]] Result<void> check_links(const Plan &plan) const;

 private:
  struct Opened {
    uint32_t peer = 0;
    OpenedMemory memory;
  };

  Result<FdTicket> restore(const PrimaryContext &context, CuStream stream, InfoExchange &info_exchange);
  Result<void> open_peers(const PrimaryContext &context, const std::vector<SegmentInfo> &infos,
                          const SegmentLinks &links, InfoExchange &info_exchange);
  Result<DevicePointer> open_peer(const PrimaryContext &context, const SegmentInfo &info, const SegmentInfo &own,
                                  uint32_t peer, InfoExchange &info_exchange);
  Result<DevicePointer> open_neighbour(const PrimaryContext &context, const SegmentInfo &info, uint32_t peer);
  Result<void> fill_ends(const PrimaryContext &context, CuStream stream, const std::vector<SegmentInfo> &infos,
                         const SegmentLinks &links, uint32_t rank);
  Result<void> fill_message_ends(const PrimaryContext &context, CuStream stream, const std::vector<SegmentInfo> &infos,
                                 const SegmentLinks &links, uint32_t rank);
  /// Returns the views of the two connections with a peer of this node. Each is at its offset in the receiver's
  /// segment, or in the host's memory.
  [[nodiscard]] std::pair<ConnectionView, ConnectionView> views_of(const std::vector<SegmentInfo> &infos,
                                                                   const SegmentLinks &links, uint32_t rank,
                                                                   uint32_t peer, uint32_t channel,
                                                                   bool of_messages) const;

  SegmentShape shape_;
  uint32_t rank_ = 0;
  std::shared_ptr<SharedMemory> own_;
  std::unique_ptr<std::byte[]> saved_;  ///< the content while the segment is suspended
  std::vector<std::shared_ptr<const SharedMemory>> held_;  ///< segments of other threads of the process
  std::vector<Opened> opened_;
  std::vector<PrimaryContext> peer_contexts_;  ///< of other devices that this process uses
  std::vector<DevicePointer> peers_;           ///< address of each rank's segment, as this rank sees it
  std::vector<bool> through_host_;             ///< by rank: its links are in the host's memory
};

/// Allocates pieces of [0, bytes), aligned to 256 bytes. It takes the first that fits.
class Arena {
 public:
  explicit Arena(uint64_t bytes) : free_{{0, bytes}} {}
  /// Returns the offset of a free piece, if there is one.
  [[nodiscard]] std::optional<uint64_t> take(uint64_t bytes);
  void give_back(uint64_t offset, uint64_t bytes);

 private:
  std::map<uint64_t, uint64_t> free_;  ///< offset -> bytes
};

}  // namespace rondo::cuda
