// SPDX-License-Identifier: Apache-2.0
// This file declares how the ranks of several hosts meet for verbs. Each rank sends an offer to the others through the
// job's authenticated store.
//
//     Offer    rails u8 |
//              for each rail: GID kind u8 | MTU in bytes u32 | LID u16 | GID 16 | device's description |
//              for each linked rank, ascending, for each path: queue pair u32 | first packet number u32 | links u16 |
//                for each link: slots address u64 | slots key u32 | cells address u64 | cells key u32 |
//                               device slots address u64, 0: there are none | device slots key u32
// Two more exchanges follow. After the first one, the queue pairs of every rank can receive; data sent earlier would be
// lost. After the second one, every rank has received from every peer; slots that arrive earlier would be lost.
#pragma once

#include <vector>

#include "src/bootstrap/bytes.h"
#include "transports/net/join.h"
#include "transports/verbs/ports.h"

namespace rondo::verbs {

using net::JoinRequest;

/// The addresses where a peer may write for one link.
struct LinkTarget {
  uint64_t slots_address = 0;
  uint32_t slots_key = 0;
  uint64_t cells_address = 0;
  uint32_t cells_key = 0;
  uint64_t device_address = 0;  ///< address of slots in device memory, or 0
  uint32_t device_key = 0;

  // Returns where to write payloads that are too long for a cell.
  [[nodiscard]] uint64_t payload_address() const { return device_address != 0 ? device_address : slots_address; }
  [[nodiscard]] uint32_t payload_key() const { return device_address != 0 ? device_key : slots_key; }
  bool operator==(const LinkTarget &) const = default;
};

/// One end of a queue pair, described for the rank at the other end.
struct QueuePairInfo {
  uint32_t rank = 0;
  uint32_t queue_pair = 0;
  uint32_t first_packet = 0;
  std::vector<LinkTarget> links;  ///< by channel

  bool operator==(const QueuePairInfo &) const = default;
};

/// The port of one rail.
struct RailInfo {
  GidKind kind = GidKind::infiniband;
  uint32_t mtu_bytes = 0;
  uint16_t lid = 0;
  GidBytes gid{};
  std::string description;  ///< "rxe0 port 1 (GID 1, RoCE v2, 192.0.2.7)"

  bool operator==(const RailInfo &) const = default;
};

/// The rails and queue pairs of a rank.
struct HostInfo {
  std::vector<RailInfo> rails;
  std::vector<QueuePairInfo> pairs;

  bool operator==(const HostInfo &) const = default;
};

[[nodiscard]] Bytes encode(const HostInfo &offer);
/// Returns the offer in the bytes, or nothing if they are no offer of this version.
[[nodiscard]] std::optional<HostInfo> decode(ByteReader reader);

/// The offer of a linked rank. `pairs` has only its queue pairs for this rank, by path.
struct Introduction {
  uint32_t rank = 0;
  HostInfo offer;
};

/// Exchanges the offers of all ranks. A rank that cannot use verbs calls it, too, with the reason in `offer`. Then all
/// ranks get the reason of the first such rank, with its name. RONDO_ERROR_MISMATCH: the number of rails of some rank
/// differs from that of rank 0.
[[nodiscard]] Result<std::vector<Introduction>> exchange_offers(const JoinRequest &request,
                                                                const Result<HostInfo> &offer, Store &store);

/// Agrees on the outcome of a step. Every rank calls it with its own outcome. A rank that failed gets its own error
/// soon and does not wait; the other ranks learn of it from the store. Apart from that, it works like check_outcomes().
[[nodiscard]] Result<void> agree(const JoinRequest &request, const char *step, const Result<void> &outcome,
                                 Store &store);

}  // namespace rondo::verbs
