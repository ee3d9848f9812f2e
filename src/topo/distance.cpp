// SPDX-License-Identifier: Apache-2.0
#include "src/topo/distance.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace rondo {
namespace {

/// Returns the deepest bridge that is above both bridges `a` and `b`, or unknown_index if there is none.
uint32_t common_bridge(const Topology &topology, uint32_t a, uint32_t b) {
  while (a != b && a != unknown_index && b != unknown_index) {  // ends, as a parent has a smaller index than its child
    uint32_t &deeper = a > b ? a : b;
    deeper = topology.bridges[deeper].parent;
  }
  return a == b ? a : unknown_index;
}

template <class A, class B>  // Device, Nic
Proximity distance_over_pci(const Topology &topology, const A &a, const B &b) {
  const uint32_t bridge = common_bridge(topology, a.bridge, b.bridge);
  if (bridge != unknown_index)
    return topology.bridges[bridge].is_host ? Proximity::root_complex : Proximity::pcie_switch;
  if (a.numa_node == unknown_index || b.numa_node == unknown_index) return Proximity::unknown;
  return a.numa_node == b.numa_node ? Proximity::numa_node : Proximity::across_nodes;
}

uint32_t links_to(const Device &from, const Device &to) {
  uint32_t count = 0;
  for (const NvLinks &links : from.nvlinks)
    if (links.end == NvLinkEnd::device && links.address == to.address) count += links.count;
  return count;
}

uint32_t links_to_switches(const Device &device) {
  uint32_t count = 0;
  for (const NvLinks &links : device.nvlinks)
    if (links.end == NvLinkEnd::nvswitch) count += links.count;
  return count;
}

/// Returns the number of NVLinks between the two devices. Each device reports its end of a link. If only one device
/// reports links, that report counts.
uint32_t direct_links(const Device &a, const Device &b) {
  if (!a.nvlinks_known) return links_to(b, a);
  if (!b.nvlinks_known) return links_to(a, b);
  return std::min(links_to(a, b), links_to(b, a));
}

}  // namespace

const char *proximity_string(Proximity proximity) {
  static constexpr std::array names{"unknown",     "across_nodes", "numa_node", "root_complex",
                                    "pcie_switch", "nvswitch",     "nvlink",    "same"};
  return names[static_cast<size_t>(proximity)];
}

Distance device_distance(const Topology &topology, uint32_t a, uint32_t b) {
  assert(a < topology.devices.size() && b < topology.devices.size());
  if (a == b) return {Proximity::same, 0};
  const Device &one = topology.devices[a];
  const Device &other = topology.devices[b];
  if (const uint32_t count = direct_links(one, other); count > 0) return {Proximity::nvlink, count};
  if (const uint32_t count = std::min(links_to_switches(one), links_to_switches(other)); count > 0)
    return {Proximity::nvswitch, count};
  return {distance_over_pci(topology, one, other), 0};
}

Proximity nic_proximity(const Topology &topology, uint32_t nic, uint32_t device) {
  assert(nic < topology.nics.size() && device < topology.devices.size());
  return distance_over_pci(topology, topology.nics[nic], topology.devices[device]);
}

std::string distance_code(const Distance &distance) {
  static constexpr std::array codes{"?", "across", "node", "root", "switch", "NVS", "NV", "same"};
  std::string code = codes[static_cast<size_t>(distance.proximity)];
  if (distance.link_count > 0) code += std::to_string(distance.link_count);
  return code;
}

Topology with_devices(Topology topology, std::span<const PciAddress> addresses) {
  for (const PciAddress &address : addresses) {
    if (device_at(topology, address) != unknown_index) continue;
    Device device;
    device.address = address;
    topology.devices.push_back(std::move(device));
  }
  std::sort(topology.devices.begin(), topology.devices.end(),
            [](const Device &a, const Device &b) { return a.address < b.address; });
  return topology;
}

uint32_t device_at(const Topology &topology, const PciAddress &address) {
  for (uint32_t index = 0; index < topology.devices.size(); ++index)
    if (topology.devices[index].address == address) return index;
  return unknown_index;
}

}  // namespace rondo
