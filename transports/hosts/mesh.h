// SPDX-License-Identifier: Apache-2.0
// The sockets between ranks of several hosts: the first ranks of neighbour hosts get one for control, and each pair of
// linked ranks gets for data as many as are asked for on each rail. A rail is an address of each host: rail
// i joins the i-th of all. Every connection proves in both directions that its ends know the job's secret, as
// connections of the store do.
//
// Handshake  connector: magic 8 | challenge 32           the challenge ends with its rank and the purpose: 0 for
//                                                        control, 1 + i for socket i of data
//            acceptor:  challenge 32 | proof 32
//            connector: proof 32                          proofs: src/bootstrap/wire.h, keyed with the mesh's secret
// The rank with the higher number connects. A stranger learns a random number; what has not proved itself within the
// patience, or is one too many, is cut, the oldest first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/bootstrap/store/store.h"
#include "transports/group_info.h"
#include "transports/hosts/congestion.h"
#include "transports/net/join.h"

namespace rondo::hosts {

struct MeshRequest {
  uint32_t rank = 0;
  uint32_t rank_count = 1;
  std::vector<bool> linked;      ///< by rank, of those on other hosts: slots go there; equal at both ends
  std::vector<bool> controlled;  ///< likewise: there is a connection for control; both are the first of their hosts
  Secret secret;             ///< of this communicator alone
  std::vector<RankInfo> ranks;  ///< all; each listens on its network interface of each rail; control uses the first
  std::string key_prefix;
  uint64_t deadline_ns = 0;
  uint32_t sockets_per_rail = 1;  ///< 0: another network carries the data, and there are sockets for control only
  bool frame_tags = false;        ///< sockets of data get keys for their frames
  Congestion congestion{};

  [[nodiscard]] const std::string &own_address(uint32_t rail) const { return ranks[rank].interfaces[rail].address; }
  [[nodiscard]] uint32_t rail_count() const { return static_cast<uint32_t>(ranks[rank].interfaces.size()); }
  [[nodiscard]] uint32_t data_sockets() const { return sockets_per_rail * rail_count(); }
  /// Purposes as the handshake has them: is there such a connection with `peer`?
  [[nodiscard]] bool has(uint32_t peer, uint32_t purpose) const {
    return purpose != 0 ? linked[peer] && purpose <= data_sockets() : controlled[peer];
  }
};

struct Mesh {
  std::vector<std::vector<Endpoint>> endpoints;  ///< by rank and rail: where it listens
  std::vector<net::PeerSocket> data;     ///< data_sockets() for each linked rank
  std::vector<net::PeerSocket> control;  ///< of the first rank of a host, with those of the others
};

/// Every rank calls it. RONDO_ERROR_TIMEOUT and RONDO_ERROR_REMOTE name both ends and what to look at; else it fails
/// with what the store knows: a rank that has died meanwhile, say.
[[nodiscard]] Result<Mesh> connect_mesh(const MeshRequest &request, Store &store);

}  // namespace rondo::hosts
