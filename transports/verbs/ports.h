// SPDX-License-Identifier: Apache-2.0
// This file chooses the RDMA ports and the addresses (GIDs) that carry a rank's links. The choice itself needs no
// device.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/result.h"

namespace rondo::verbs {

using GidBytes = std::array<uint8_t, 16>;

enum class GidKind : uint8_t { infiniband = 0, roce_v1 = 1, roce_v2 = 2 };

/// An entry of a port's GID table. RoCE derives it from an address of the port's network interface. An IPv4 address is
/// in the last 4 bytes, after 10 bytes of 0 and 2 bytes of 255.
struct Gid {
  uint32_t index = 0;
  GidKind kind = GidKind::infiniband;
  GidBytes bytes{};

  /// Returns "GID 1, RoCE v2, 192.0.2.7" or the like.
  [[nodiscard]] std::string describe() const;
};

struct Port {
  std::string device;
  uint32_t number = 1;
  bool active = false;
  uint32_t mtu_bytes = 0;
  std::vector<Gid> gids;

  /// Returns "rxe0 port 1" or the like.
  [[nodiscard]] std::string describe() const { return device + " port " + std::to_string(number); }
};

/// The user's wish for a port, and the address through which this host reaches others.
struct PortWish {
  std::string device;      ///< "mlx5_0" or "mlx5_0:1"; empty means any
  int32_t gid_index = -1;  ///< RONDO_IB_GID_INDEX; -1 means any
  std::string address;     ///< numeric address of this host on the route to other hosts; empty if unknown
  std::vector<std::string> near_devices = {};  ///< devices near the rank's cores
};

/// The wish for all rails.
struct RailsWish {
  std::string devices;                 ///< RONDO_IB_HCA, one device for each rail; if empty, one rail for each address
  int32_t gid_index = -1;              ///< as in PortWish
  std::vector<std::string> addresses;  ///< as in PortWish; a rail without an address takes the first one
  std::vector<std::string> near_devices = {};  ///< as in PortWish
};

struct PortChoice {
  size_t port = 0;  ///< index of the port
  Gid gid;
};

/// Returns the best port and GID among the active ports and the GIDs that match `wish.device` and `wish.gid_index`. The
/// order is: the RoCE v2 GID of `wish.address`, other RoCE v2 IPv4 GIDs and InfiniBand GIDs, IPv6 GIDs, RoCE v1. Among
/// equally good GIDs, the first is chosen. If the best InfiniBand port is not near the rank's cores, the first near
/// port of its subnet is taken instead. The error lists the host's ports.
[[nodiscard]] Result<PortChoice> choose_port(const std::vector<Port> &ports, const PortWish &wish);
/// Chooses a port for each rail. No port is used twice.
[[nodiscard]] Result<std::vector<PortChoice>> choose_ports(const std::vector<Port> &ports, const RailsWish &wish);

}  // namespace rondo::verbs
