// SPDX-License-Identifier: Apache-2.0
// This file connects sockets between ranks of several hosts. For control, the first ranks of every two hosts get one
// socket. For data, each pair of linked ranks gets the requested number of sockets on each rail. A rail consists of one
// address of each host: rail i connects the i-th addresses. On every connection both ends prove that they know the
// job's secret, as on connections of the store.
//
//     Handshake  connector: magic 8 | challenge 32           the challenge ends with its rank and the purpose: 0 for
//                                                            control, 1 + i for socket i of data
//                acceptor:  challenge 32 | proof 32
//                connector: proof 32                         proofs: src/bootstrap/wire.h, keyed with the mesh's secret
// The rank with the higher number connects. A stranger learns only a random number. A connection is cut if it does not
// prove itself in time. If there are too many unproven connections, the oldest is cut first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/bootstrap/store/store.h"
#include "transports/hosts/congestion.h"
#include "transports/net/join.h"

namespace rondo::hosts {

/// The request to connect the ranks. Its secret is for the mesh of this communicator only. Each rank listens on its
/// interface of each rail. Control connections use the first rail.
struct MeshRequest : InitContext {
  std::vector<bool> linked{};      ///< by rank, whether it is on another host and slots go to it; equal at both ends
  std::vector<bool> controlled{};  ///< by rank, whether it and this rank, each first on its host, connect for control
  uint32_t sockets_per_rail = 1;   ///< 0: another network carries the data, and all sockets are for control
  Congestion congestion{};

  [[nodiscard]] const std::string &own_address(uint32_t rail) const {
    return group.infos[rank].interfaces[rail].address;
  }
  [[nodiscard]] uint32_t rail_count() const { return static_cast<uint32_t>(group.infos[rank].interfaces.size()); }
  [[nodiscard]] uint32_t data_sockets() const { return sockets_per_rail * rail_count(); }
  /// Says whether a connection with `peer` exists for that purpose. The handshake defines the purposes.
  [[nodiscard]] bool has(uint32_t peer, uint32_t purpose) const {
    return purpose != 0 ? linked[peer] && purpose <= data_sockets() : controlled[peer];
  }
};

struct Mesh {
  std::vector<std::vector<Endpoint>> endpoints;  ///< where each rank listens, by rank and rail
  std::vector<net::PeerSocket> data;     ///< data_sockets() for each linked rank
  std::vector<net::PeerSocket> control;  ///< on the first rank of a host: with other hosts' first ranks
};

/// Connects the ranks; every rank calls it. RONDO_ERROR_TIMEOUT and RONDO_ERROR_REMOTE name both ends and what to
/// check. Other errors come from the store, for instance if a rank has died meanwhile.
[[nodiscard]] Result<Mesh> connect_mesh(const MeshRequest &request, Store &store);

}  // namespace rondo::hosts
