// SPDX-License-Identifier: Apache-2.0
// Describes for `rondo info` where devices are: their NUMA nodes, their NVLinks, and the distance of each pair.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "src/topo/topology.h"

namespace rondo::cli {

/// Builds the devices' part from `cuda`, the result of cuda_document(). The devices in `cuda` get their numbers, and a
/// position of their own where the topology has none.
[[nodiscard]] nlohmann::ordered_json devices_document(const DeviceDiscovery &found, const std::string &nvml_library,
                                                      const nlohmann::ordered_json &cuda);

/// Adds the position of a device or a network card. `numa_node` and `nearest` are as in its Topology, and in JSON as
/// the system counts.
void add_position(nlohmann::ordered_json &json, const Topology &topology, uint32_t numa_node,
                  const std::vector<uint32_t> &nearest);
/// Returns for people a position in JSON, e.g. `; NUMA node 0; processing units 0-3`.
[[nodiscard]] std::string position_text(const nlohmann::ordered_json &json);

/// Returns a table of distances with a legend, for people.
[[nodiscard]] std::string devices_text(const nlohmann::ordered_json &devices);

}  // namespace rondo::cli
