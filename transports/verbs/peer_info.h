// SPDX-License-Identifier: Apache-2.0
// How the ranks of several hosts meet for verbs: what each tells the others through the job's authenticated store.
//
// Offer    rails u8 |
//          for each rail: GID kind u8 | MTU in bytes u32 | LID u16 | GID 16 | device's description |
//          for each linked rank, ascending, for each path: queue pair u32 | first packet number u32 | links u16 |
//            for each link: slots address u64 | slots key u32 | cells address u64 | cells key u32 |
//                           device slots address u64, 0: there are none | device slots key u32
// Two more exchanges follow: each rank's queue pairs receive (what is sent before would be lost), and each rank has
// heard from every peer (slots that come before would be lost).
#pragma once

#include <vector>

#include "src/bootstrap/bytes.h"
#include "transports/net/join.h"
#include "transports/verbs/ports.h"

namespace rondo::verbs {

using net::JoinRequest;

/// Where a peer may write for one link.
struct LinkTarget {
  uint64_t slots_address = 0;
  uint32_t slots_key = 0;
  uint64_t cells_address = 0;
  uint32_t cells_key = 0;
  uint64_t device_address = 0;  ///< of slots in memory of a device; 0: there are none
  uint32_t device_key = 0;

  // Of payloads that are longer than a cell's.
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

/// Where a rank's queue pairs are.
struct HostInfo {
  std::vector<RailInfo> rails;
  std::vector<QueuePairInfo> pairs;

  bool operator==(const HostInfo &) const = default;
};

[[nodiscard]] Bytes encode(const HostInfo &offer);
/// Nothing: it is no offer of this version.
[[nodiscard]] std::optional<HostInfo> decode(ByteReader reader);

/// What a linked rank said, with `pairs` reduced to those for this rank, by path.
struct Introduction {
  uint32_t rank = 0;
  HostInfo offer;
};

/// Every rank calls it, those as well that cannot use verbs: `offer` is then the reason. All ranks get the same error:
/// the reason of the first rank that cannot, with its name; or RONDO_ERROR_MISMATCH, if a rank has not as many rails as
/// rank 0.
[[nodiscard]] Result<std::vector<Introduction>> exchange_offers(const JoinRequest &request,
                                                                const Result<HostInfo> &offer, Store &store);

/// Every rank calls it with the outcome of its preparations. A rank that failed gets its own error, soon, though others
/// may still be waiting for it elsewhere; they learn of it by the store. Else as check_outcomes().
[[nodiscard]] Result<void> agree(const JoinRequest &request, const char *step, const Result<void> &outcome,
                                 Store &store);

}  // namespace rondo::verbs
