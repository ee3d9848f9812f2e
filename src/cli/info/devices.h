// SPDX-License-Identifier: Apache-2.0
// This file describes for `rondo info` where devices are: their NUMA nodes, their NVLinks, and the distance of each
// pair.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "src/topo/topology.h"

namespace rondo::cli {

/// Builds the part about devices. It has all devices of the topology, and those devices in `cuda` (from
/// cuda_document()) that the topology lacks. Each has its CUDA ordinals.
[[nodiscard]] nlohmann::ordered_json devices_document(const DeviceDiscovery &found, const std::string &nvml_library,
                                                      const nlohmann::ordered_json &cuda);

/// Adds the position of a device or network card. The arguments `numa_node` and `nearest` are indices in the Topology.
/// In the JSON, they become the system's numbers.
void add_position(nlohmann::ordered_json &json, const Topology &topology, uint32_t numa_node,
                  const std::vector<uint32_t> &nearest);
/// Returns a position in JSON as text for people, such as `; NUMA node 0; processing units 0-3`.
[[nodiscard]] std::string position_text(const nlohmann::ordered_json &json);

/// Returns a table of distances with a legend, for people.
[[nodiscard]] std::string devices_text(const nlohmann::ordered_json &devices);

}  // namespace rondo::cli
