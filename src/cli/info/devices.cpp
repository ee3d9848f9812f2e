// SPDX-License-Identifier: Apache-2.0
#include "src/cli/info/devices.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <vector>

#include <nlohmann/json.hpp>

#include "src/cli/info/lines.h"
#include "src/topo/distance.h"

namespace rondo::cli {
namespace {

using Json = nlohmann::ordered_json;

Json nvlinks_json(const Device &device) {
  if (!device.nvlinks_known) return nullptr;
  Json list = Json::array();
  for (const NvLinks &links : device.nvlinks)
    list.push_back({{"to", nvlink_end_string(links.end)},
                    {"pci_bus_id", links.address ? Json(pci_address_string(*links.address)) : Json(nullptr)},
                    {"count", links.count},
                    {"version", links.version == 0 ? Json(nullptr) : Json(links.version)}});
  return list;
}

Json device_json(const Topology &topology, const Device &device, const Json &ordinals) {
  Json json{{"pci_bus_id", pci_address_string(device.address)},
            {"uuid", device.uuid.empty() ? Json(nullptr) : Json(device.uuid)},
            {"cuda_ordinals", ordinals}};
  add_position(json, topology, device.numa_node, device.pus);
  json["nvlinks"] = nvlinks_json(device);
  return json;
}

/// Returns the ordinals of the devices at an address. A divided device (MIG) has several instances with one address.
Json ordinals_at(const PciAddress &address, const Json &cuda) {
  Json ordinals = Json::array();
  for (const Json &device : cuda["devices"])
    if (parse_pci_address(device["pci_bus_id"].get<std::string>()) == address) ordinals.push_back(device["ordinal"]);
  return ordinals;
}

Json distances_json(const Topology &topology) {
  Json rows = Json::array();
  for (uint32_t a = 0; a < topology.devices.size(); ++a) {
    Json row = Json::array();
    for (uint32_t b = 0; b < topology.devices.size(); ++b) {
      const Distance distance = device_distance(topology, a, b);
      row.push_back({{"kind", proximity_string(distance.proximity)},
                     {"links", distance.link_count},
                     {"code", distance_code(distance)}});
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

// ---- for people ----

std::string nvlinks_text(const Json &nvlinks) {
  if (nvlinks.is_null()) return "NVLinks not known";
  std::string text;
  for (const Json &links : nvlinks) {
    text += (text.empty() ? "NVLinks: " : ", ") + links["count"].dump() + " to ";
    if (links["to"] == "switch") text += links["pci_bus_id"].is_null() ? "switches" : "switch ";
    if (!links["pci_bus_id"].is_null()) text += links["pci_bus_id"].get<std::string>();
  }
  return text.empty() ? "no NVLinks" : text;
}

std::string device_text(const Json &device) {
  std::string text;
  for (const Json &ordinal : device["cuda_ordinals"]) text += (text.empty() ? "CUDA " : ", ") + ordinal.dump();
  if (text.empty()) text = "not seen by CUDA";
  return text + position_text(device) + "; " + nvlinks_text(device["nvlinks"]);
}

struct Legend {
  const char *kind;
  const char *code;
  const char *meaning;
};
constexpr std::array legends{Legend{"nvlink", "NVn", "n NVLinks from one to the other (nvidia-smi topo: NV#)"},
                             Legend{"nvswitch", "NVSn", "n NVLinks of each to the switches of this host (NV#)"},
                             Legend{"pcie_switch", "switch", "below one PCIe switch or port (PIX, PXB)"},
                             Legend{"root_complex", "root", "below one root complex, through the processor (PHB)"},
                             Legend{"numa_node", "node", "below two root complexes of one NUMA node (NODE)"},
                             Legend{"across_nodes", "across", "in different NUMA nodes (SYS)"},
                             Legend{"unknown", "?", "not known: this host does not show where they are"}};

void add_legend(std::string &out, const Json &devices) {
  std::set<std::string> kinds;
  for (const Json &row : devices["distances"])
    for (const Json &distance : row) kinds.insert(distance["kind"].get<std::string>());
  for (const Legend &legend : legends)
    if (kinds.contains(legend.kind)) add_line(out, "  " + std::string(legend.code), legend.meaning);
  for (const Json &device : devices["list"]) {
    if (!device["nvlinks"].is_null()) continue;
    out += "    Where NVLinks are not known, the distance is that over PCIe.\n";
    return;
  }
}

void add_distances(std::string &out, const Json &devices) {
  char cell[64];
  std::snprintf(cell, sizeof cell, "  %-18s", "distance");
  out += cell;
  const Json &rows = devices["distances"];
  for (size_t column = 0; column < rows.size(); ++column) {
    std::snprintf(cell, sizeof cell, "%8zu", column);
    out += cell;
  }
  out += "\n";
  for (size_t row = 0; row < rows.size(); ++row) {
    std::snprintf(cell, sizeof cell, "  %3zu %-14s", row,
                  devices["list"][row]["pci_bus_id"].get<std::string>().c_str());
    out += cell;
    for (const Json &distance : rows[row]) {
      std::snprintf(cell, sizeof cell, "%8s", distance["code"].get<std::string>().c_str());
      out += cell;
    }
    out += "\n";
  }
}

std::string nvml_text(const Json &nvml) {
  if (!nvml["asked"].get<bool>()) return "not asked, since the topology is that of a file";
  return nvml["error"].is_null() ? nvml["library"].get<std::string>() : "none";
}

}  // namespace

void add_position(Json &json, const Topology &topology, uint32_t numa_node, const std::vector<uint32_t> &nearest) {
  std::vector<uint32_t> pus;
  for (const uint32_t pu : nearest) pus.push_back(topology.pus[pu].os_index);
  std::sort(pus.begin(), pus.end());
  json["numa_node"] = numa_node != unknown_index ? Json(topology.numa_nodes[numa_node].os_index) : Json(nullptr);
  json["processing_units"] = pus;
}

std::string position_text(const Json &json) {
  const bool known = !json["numa_node"].is_null();
  const auto pus = json["processing_units"].get<std::vector<uint32_t>>();
  return (known ? "; NUMA node " + json["numa_node"].dump() : "; NUMA node not known") +
         (pus.empty() ? "" : "; processing units " + ranges(pus));
}

Json devices_document(const DeviceDiscovery &found, const std::string &nvml_library, const Json &cuda) {
  std::vector<PciAddress> addresses;
  for (const Json &device : cuda["devices"])
    if (const auto address = parse_pci_address(device["pci_bus_id"].get<std::string>())) addresses.push_back(*address);
  const Topology topology = with_devices(found.topology, addresses);
  Json list = Json::array();
  for (const Device &device : topology.devices)
    list.push_back(device_json(topology, device, ordinals_at(device.address, cuda)));
  return {{"nvml",
           {{"library", nvml_library},
            {"asked", found.nvml_asked},
            {"error", found.nvml_error.empty() ? Json(nullptr) : Json(found.nvml_error)}}},
          {"list", std::move(list)},
          {"distances", distances_json(topology)}};
}

std::string devices_text(const Json &devices) {
  std::string out = "\nDevices\n";
  add_line(out, "NVML", nvml_text(devices["nvml"]));
  if (!devices["nvml"]["error"].is_null()) out += "    " + devices["nvml"]["error"].get<std::string>() + "\n";
  if (devices["list"].empty()) {
    add_line(out, "found", "none");
    return out;
  }
  for (const Json &device : devices["list"]) {
    add_line(out, device["pci_bus_id"], device_text(device));
    if (!device["uuid"].is_null()) add_line(out, "", device["uuid"]);
  }
  add_distances(out, devices);
  add_legend(out, devices);
  return out;
}

}  // namespace rondo::cli
