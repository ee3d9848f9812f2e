// SPDX-License-Identifier: Apache-2.0
// These functions compute the distance between two devices of a host, or between a device and a network card. They only
// read a Topology and do no I/O. `rondo info` prints the distance, and choices depend on it. A greater Proximity is
// nearer. A distance does not include the bandwidth, which is not measured.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "src/topo/topology.h"

namespace rondo {

/// The nearest connection between two devices. The path over PCI counts only if there are no NVLinks.
enum class Proximity : uint8_t {
  unknown,
  across_nodes,  ///< different NUMA nodes
  numa_node,     ///< different root complexes of one NUMA node
  root_complex,  ///< one root complex, through the processor
  pcie_switch,   ///< one PCIe switch, or one port
  nvswitch,      ///< NVLinks of both devices, through switches; the switches of a host form one fabric
  nvlink,        ///< NVLinks from one device to the other
  same,          ///< one device
};

/// Returns the name in JSON, such as "pcie_switch".
[[nodiscard]] const char *proximity_string(Proximity proximity);

struct Distance {
  Proximity proximity = Proximity::unknown;
  uint32_t link_count = 0;  ///< for nvlink and nvswitch: number of links that both devices have

  bool operator==(const Distance &) const = default;
};

/// Returns the distance between two devices, given by their indices in Topology::devices. It is symmetric.
[[nodiscard]] Distance device_distance(const Topology &topology, uint32_t a, uint32_t b);

/// Returns the distance over PCI between a network card and a device, given by their indices.
[[nodiscard]] Proximity nic_proximity(const Topology &topology, uint32_t nic, uint32_t device);

/// Returns a short code of the distance, for tables: "NV4", "NVS18", "switch", "root", "node", "across", "same", "?".
[[nodiscard]] std::string distance_code(const Distance &distance);

/// Returns the topology with a device at each of `addresses`. A device that it adds has an unknown position.
[[nodiscard]] Topology with_devices(Topology topology, std::span<const PciAddress> addresses);

/// Returns the index of the device at `address`, or unknown_index if there is none.
[[nodiscard]] uint32_t device_at(const Topology &topology, const PciAddress &address);

}  // namespace rondo
