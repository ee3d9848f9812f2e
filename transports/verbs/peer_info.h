// SPDX-License-Identifier: Apache-2.0
// The ranks of several hosts meet for verbs by what each sends to the others through the job's authenticated store.
//
//     Offer    rails u8 |
//              for each rail: GID kind u8 | MTU in bytes u32 | LID u16 | GID 16 | device's description |
//              for each linked rank, ascending, for each path: queue pair u32 | first packet number u32 | links u16 |
//                for each link: slots address u64 | slots key u32 | cells address u64 | cells key u32 |
//                               device slots address u64, 0: there are none | device slots key u32
// Two more exchanges follow. After the first, the queue pairs of each rank can receive; anything sent before would be
// lost. After the second, each rank has received from every peer; slots that arrive before would be lost.
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
  uint64_t device_address = 0;  ///< of slots in memory of a device, or 0
  uint32_t device_key = 0;

  // Returns the target of payloads that are longer than a cell's.
  [[nodiscard]] uint64_t payload_address() const { return device_address != 0 ? device_address : slots_address; }
  [[nodiscard]] uint32_t payload_key() const { return device_address != 0 ? device_key : slots_key; }
  bool operator==(const LinkTarget &) const = default;
};

/// The end of a queue pair, for the one rank that it is connected to.
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
/// Returns nothing if the bytes are no offer of this version.
[[nodiscard]] std::optional<HostInfo> decode(ByteReader reader);

/// The offer of a linked rank, with `pairs` reduced to the pairs for this rank, by path.
struct Introduction {
  uint32_t rank = 0;
  HostInfo offer;
};

/// Exchanges the offers of all ranks. A rank that cannot use verbs calls it, too, with the reason in `offer`. All ranks
/// get the same error, which is the reason of the first rank that cannot, with its name. RONDO_ERROR_MISMATCH: a rank
/// has not the same number of rails as rank 0.
[[nodiscard]] Result<std::vector<Introduction>> exchange_offers(const JoinRequest &request,
                                                                const Result<HostInfo> &offer, Store &store);

/// Agrees on the outcome of a step; every rank calls it with the outcome of its preparations. A rank that failed gets
/// its own error, soon, though others may still be waiting for it elsewhere; they learn of it by the store. Otherwise
/// it is as check_outcomes().
[[nodiscard]] Result<void> agree(const JoinRequest &request, const char *step, const Result<void> &outcome,
                                 Store &store);

}  // namespace rondo::verbs
