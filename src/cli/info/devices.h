// SPDX-License-Identifier: Apache-2.0
// What `rondo info` tells of where devices are: their NUMA nodes, their NVLinks, and how far each is from each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "src/topo/topology.h"

namespace rondo::cli {

/// `cuda`: of cuda_document(). Its devices get their numbers, and a place of their own where the topology has none.
[[nodiscard]] nlohmann::ordered_json devices_document(const DeviceDiscovery &found, const std::string &nvml_library,
                                                      const nlohmann::ordered_json &cuda);

/// Where a device or a network card is: `numa_node` and `nearest` as in its Topology, in JSON as the system counts.
void add_position(nlohmann::ordered_json &json, const Topology &topology, uint32_t numa_node,
                  const std::vector<uint32_t> &nearest);
/// For people, of JSON with a position: "; NUMA node 0; processing units 0-3".
[[nodiscard]] std::string position_text(const nlohmann::ordered_json &json);

/// For people: a table of distances with a legend.
[[nodiscard]] std::string devices_text(const nlohmann::ordered_json &devices);

}  // namespace rondo::cli
