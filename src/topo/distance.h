// SPDX-License-Identifier: Apache-2.0
// Computes the distance between two devices of a host, or a device and a network card, for people (`rondo info`) and
// for choices. The functions use a Topology and do no I/O. Nearer is greater in Proximity. No bandwidth follows from
// this, since none was measured.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "src/topo/topology.h"

namespace rondo {

/// The nearest connection between two devices. The way over PCI counts only if there are no NVLinks.
enum class Proximity : uint8_t {
  unknown,
  across_nodes,  ///< different NUMA nodes
  numa_node,     ///< different root complexes of one NUMA node
  root_complex,  ///< one root complex, through the processor
  pcie_switch,   ///< one PCIe switch, or one port
  nvswitch,      ///< NVLinks of both, through switches; a host's switches are one fabric
  nvlink,        ///< NVLinks from one to the other
  same,          ///< one device
};

/// Returns the name as in JSON, e.g. "pcie_switch".
[[nodiscard]] const char *proximity_string(Proximity proximity);

struct Distance {
  Proximity proximity = Proximity::unknown;
  uint32_t link_count = 0;  ///< of nvlink and nvswitch: those that both devices have

  bool operator==(const Distance &) const = default;
};

/// Returns the distance between the devices of these indices in Topology::devices; the same in both directions.
[[nodiscard]] Distance device_distance(const Topology &topology, uint32_t a, uint32_t b);

/// Returns the distance over PCI between the card and the device of these indices.
[[nodiscard]] Proximity nic_proximity(const Topology &topology, uint32_t nic, uint32_t device);

/// Returns a code for a table: "NV4", "NVS18", "switch", "root", "node", "across", "same", "?".
[[nodiscard]] std::string distance_code(const Distance &distance);

/// Returns the topology with a device, of unknown position, for each address at which it has none.
[[nodiscard]] Topology with_devices(Topology topology, std::span<const PciAddress> addresses);

/// Returns the index of the device at `address`, or unknown_index if there is none.
[[nodiscard]] uint32_t device_at(const Topology &topology, const PciAddress &address);

}  // namespace rondo
