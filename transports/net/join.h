// SPDX-License-Identifier: Apache-2.0
// This file declares how a rank's network is made, and what every kind of network learns about the group. The table of
// src/core/registry.cpp lists the kinds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/unique_handle.h"
#include "src/bootstrap/store/store.h"
#include "src/links/init_context.h"
#include "transports/net.h"

namespace rondo::net {

/// The secret is of this communicator's links alone.
struct JoinRequest : InitContext {
  std::vector<bool> linked{};            ///< by rank, whether it has links to this rank; equal at both ends
  std::vector<std::string> names{};      ///< by rank, for people: "rank 2 (host b, process 17)"
  std::vector<std::string> addresses{};  ///< by rail: numeric, of this host, on the route to the others
  std::vector<std::string> near_ib_devices{};  ///< near this rank's cores: taken first among equals
  const RdmaMemory *rdma_memory = nullptr;     ///< links have slots in it; null if they have none
};

/// The keys for the tags of a connection's frames, by direction; only its two ends know them.
struct FrameKeys {
  std::array<std::byte, 32> send;
  std::array<std::byte, 32> receive;
};

/// A socket that is connected to `peer`, whose ends have proved that they know the job's secret.
struct PeerSocket {
  uint32_t peer = 0;
  FileDescriptor socket;
  std::string name;   ///< for people: "rank 2 (host b, process 17) at 192.0.2.7"
  uint32_t index = 0; ///< among the sockets of the peer, the same at both ends
  /// The control plane does not see the fate of this connection: it is lost if nothing is acknowledged for patience_ns.
  bool watched = false;
  uint64_t patience_ns = 2'500'000'000;
  std::optional<FrameKeys> frame_keys{};  ///< none: frames have no tags (RONDO_FRAME_TAGS)
};

struct NetworkKind {
  /// Every rank of the communicator calls it. `links` are counted as they stand, and their memory outlives the network.
  /// `sockets`: Config::sockets on each rail with each linked rank, where the kind needs them.
  using Make = Result<std::unique_ptr<Network>> (*)(const std::vector<NearLink> &links, const JoinRequest &request,
                                                    std::vector<PeerSocket> sockets, Store &store);
  NetworkChoice choice;
  const char *name;  ///< as Network::name()
  bool needs_sockets;
  /// It may read and write slots in memory of a device, as Network::takes_device_memory() says. It needs no sockets,
  /// because it is made a second time if it cannot.
  bool reaches_devices;
  Make make;
};

}  // namespace rondo::net
