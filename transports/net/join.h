// SPDX-License-Identifier: Apache-2.0
// This file declares how the network of a rank is made, and what each kind of network learns about the group.
// src/core/registry.cpp lists the kinds of network.
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

/// A rank's request to make its network. The secret serves the links of this communicator only.
struct JoinRequest : InitContext {
  std::vector<bool> linked{};            ///< by rank, whether it has links to this rank; equal at both ends
  std::vector<std::string> names{};      ///< by rank, for people: "rank 2 (host b, process 17)"
  std::vector<std::string> addresses{};  ///< by rail: numeric address of this host on the route to the others
  std::vector<std::string> near_ib_devices{};  ///< near this rank's cores; of equal devices, these are preferred
  const RdmaMemory *rdma_memory = nullptr;     ///< device memory that has slots of the links; null if there is none
};

/// The keys for the tags of frames, one per direction. Only the two ends of a connection know them.
struct FrameKeys {
  std::array<std::byte, 32> send;
  std::array<std::byte, 32> receive;
};

/// A socket that is connected to `peer`. Both ends have proved that they know the job's secret.
struct PeerSocket {
  uint32_t peer = 0;
  FileDescriptor socket;
  std::string name;   ///< for people: "rank 2 (host b, process 17) at 192.0.2.7"
  uint32_t index = 0; ///< index among the sockets with the peer, the same at both ends
  /// True if the network itself must watch this connection, because the control plane does not. The connection is lost
  /// if nothing is acknowledged for patience_ns.
  bool watched = false;
  uint64_t patience_ns = 2'500'000'000;
  std::optional<FrameKeys> frame_keys{};  ///< none: frames have no tags (RONDO_FRAME_TAGS)
};

struct NetworkKind {
  /// Makes the network; every rank of the communicator calls it. The network numbers `links` in their order. The memory
  /// of the links must outlive the network. For a kind that needs sockets, `sockets` has Config::sockets connections
  /// for each linked rank and each rail (network interface).
  using Make = Result<std::unique_ptr<Network>> (*)(const std::vector<NearLink> &links, const JoinRequest &request,
                                                    std::vector<PeerSocket> sockets, Store &store);
  NetworkChoice choice;
  const char *name;  ///< as Network::name()
  bool needs_sockets;
  /// True if the network may be able to use slots in device memory (Network::takes_device_memory()). If it cannot after
  /// all, the network is made a second time, so a kind with this flag must need no sockets.
  bool reaches_devices;
  Make make;
};

}  // namespace rondo::net
