// SPDX-License-Identifier: Apache-2.0
// The sockets between ranks of several hosts. The first ranks of neighbour hosts get one for control. Each pair of
// linked ranks gets for data, on each rail, the number of sockets that is asked for. A rail is an address of each host:
// rail i joins the i-th of all. Every connection proves in both directions that its ends know the job's secret, as
// connections of the store do.
//
//     Handshake  connector: magic 8 | challenge 32           the challenge ends with its rank and the purpose: 0 for
//                                                            control, 1 + i for socket i of data
//                acceptor:  challenge 32 | proof 32
//                connector: proof 32                         proofs: src/bootstrap/wire.h, keyed with the mesh's secret
// The rank with the higher number connects. A stranger learns a random number. A connection is cut if it has not proved
// itself within the patience, or if there is one too many; the oldest is cut first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/bootstrap/store/store.h"
#include "transports/hosts/congestion.h"
#include "transports/net/join.h"

namespace rondo::hosts {

/// The secret is of this communicator's mesh alone. Each rank listens on its interface of each rail, and control uses
/// the first.
struct MeshRequest : InitContext {
  std::vector<bool> linked{};      ///< by rank, whether slots go to it on another host; equal at both ends
  std::vector<bool> controlled{};  ///< by rank, whether a connection for control exists; both are first of their hosts
  uint32_t sockets_per_rail = 1;   ///< if 0, another network carries the data, and there are sockets for control only
  Congestion congestion{};

  [[nodiscard]] const std::string &own_address(uint32_t rail) const {
    return group.infos[rank].interfaces[rail].address;
  }
  [[nodiscard]] uint32_t rail_count() const { return static_cast<uint32_t>(group.infos[rank].interfaces.size()); }
  [[nodiscard]] uint32_t data_sockets() const { return sockets_per_rail * rail_count(); }
  /// Returns whether there is a connection with `peer` for that purpose, as the handshake numbers purposes.
  [[nodiscard]] bool has(uint32_t peer, uint32_t purpose) const {
    return purpose != 0 ? linked[peer] && purpose <= data_sockets() : controlled[peer];
  }
};

struct Mesh {
  std::vector<std::vector<Endpoint>> endpoints;  ///< by rank and rail: where it listens
  std::vector<net::PeerSocket> data;     ///< data_sockets() for each linked rank
  std::vector<net::PeerSocket> control;  ///< of the first rank of a host, with other hosts' first ranks
};

/// Connects the ranks; every rank calls it. RONDO_ERROR_TIMEOUT and RONDO_ERROR_REMOTE name both ends and what to
/// check. Other errors are what the store knows, such as a rank that has died meanwhile.
[[nodiscard]] Result<Mesh> connect_mesh(const MeshRequest &request, Store &store);

}  // namespace rondo::hosts
