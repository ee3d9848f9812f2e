// SPDX-License-Identifier: Apache-2.0
#include "src/cli/info/nics.h"

#include <nlohmann/json.hpp>

#include "src/cli/info/devices.h"
#include "src/cli/info/lines.h"
#include "src/topo/distance.h"

namespace rondo::cli {
namespace {

using Json = nlohmann::ordered_json;

Json nic_json(const Topology &topology, uint32_t index) {
  const Nic &nic = topology.nics[index];
  Json distances = Json::array();
  for (uint32_t device = 0; device < topology.devices.size(); ++device) {
    const Proximity proximity = nic_proximity(topology, index, device);
    distances.push_back({{"pci_bus_id", pci_address_string(topology.devices[device].address)},
                         {"kind", proximity_string(proximity)},
                         {"code", distance_code({proximity, 0})}});
  }
  Json json{{"name", nic.name},
            {"kind", nic_kind_string(nic.kind)},
            {"pci_bus_id", pci_address_string(nic.address)}};
  add_position(json, topology, nic.numa_node, nic.pus);
  json["distances"] = std::move(distances);
  return json;
}

std::string nic_text(const Json &nic) {
  std::string text = nic["pci_bus_id"].get<std::string>();
  if (nic["kind"] == "rdma") text += ", RDMA";
  text += position_text(nic);
  if (nic["distances"].empty()) return text;
  text += "; from the devices:";
  for (const Json &distance : nic["distances"]) text += " " + distance["code"].get<std::string>();
  return text;
}

}  // namespace

Json nics_document(const Topology &topology) {
  Json list = Json::array();
  for (uint32_t index = 0; index < topology.nics.size(); ++index) list.push_back(nic_json(topology, index));
  return list;
}

std::string nics_text(const Json &nics) {
  std::string out = "\nNetwork cards on PCI\n";
  if (nics.empty()) add_line(out, "found", "none");
  for (const Json &nic : nics) add_line(out, nic["name"], nic_text(nic));
  return out;
}

}  // namespace rondo::cli
