// SPDX-License-Identifier: Apache-2.0
// What `rondo info` tells of where devices are: their NUMA nodes, their NVLinks, and how far each is from each other.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "src/topo/topology.h"

namespace rondo::cli {

/// `cuda`: of cuda_document(). Its devices get their numbers, and a place of their own where the topology has none.
[[nodiscard]] nlohmann::ordered_json devices_document(const DeviceDiscovery &found, const std::string &nvml_library,
                                                      const nlohmann::ordered_json &cuda);

/// For people: a table of distances with a legend.
[[nodiscard]] std::string devices_text(const nlohmann::ordered_json &devices);

}  // namespace rondo::cli
