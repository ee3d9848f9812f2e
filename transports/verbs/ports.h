// SPDX-License-Identifier: Apache-2.0
// Which ports of which RDMA devices, and which of their addresses (GIDs), carry the links of a rank. Needs no device.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/result.h"

namespace rondo::verbs {

using GidBytes = std::array<uint8_t, 16>;

enum class GidKind : uint8_t { infiniband = 0, roce_v1 = 1, roce_v2 = 2 };

/// An entry of a port's table. RoCE derives it from an address of the port's network interface: an IPv4 address stands
/// in the last 4 bytes, behind 10 bytes of 0 and 2 of 255.
struct Gid {
  uint32_t index = 0;
  GidKind kind = GidKind::infiniband;
  GidBytes bytes{};

  /// "GID 1, RoCE v2, 192.0.2.7"
  [[nodiscard]] std::string describe() const;
};

struct Port {
  std::string device;
  uint32_t number = 1;
  bool active = false;
  uint32_t mtu_bytes = 0;
  std::vector<Gid> gids;

  /// "rxe0 port 1"
  [[nodiscard]] std::string describe() const { return device + " port " + std::to_string(number); }
};

/// What the user asked for, and where the host reaches others.
struct PortWish {
  std::string device;      ///< "mlx5_0" or "mlx5_0:1"; empty: any
  int32_t gid_index = -1;  ///< RONDO_IB_GID_INDEX; -1: any
  std::string address;     ///< numeric, of this host, on the route to the other hosts; empty: not known
  std::vector<std::string> near_devices = {};  ///< near the rank's cores
};

/// The same for all rails.
struct RailsWish {
  std::string devices;                 ///< RONDO_IB_HCA, with commas: a rail each; empty: one for each address
  int32_t gid_index = -1;              ///< as in PortWish
  std::vector<std::string> addresses;  ///< as in PortWish; rails without one of their own take the first
  std::vector<std::string> near_devices = {};  ///< as in PortWish
};

struct PortChoice {
  size_t port = 0;  ///< index of the port
  Gid gid;
};

/// Of the active ports: the GID of the wish's address before other IPv4 addresses of RoCE v2 and InfiniBand's own,
/// those before IPv6, RoCE v1 last; of equals the first, or of InfiniBand ports in one subnet the first of a device
/// near the rank's cores. The error lists the ports that there are.
[[nodiscard]] Result<PortChoice> choose_port(const std::vector<Port> &ports, const PortWish &wish);
/// By rail, no port twice.
[[nodiscard]] Result<std::vector<PortChoice>> choose_ports(const std::vector<Port> &ports, const RailsWish &wish);

}  // namespace rondo::verbs
