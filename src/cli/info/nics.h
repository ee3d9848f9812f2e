// SPDX-License-Identifier: Apache-2.0
// What `rondo info` tells of network cards: where each is, and how far from each device.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "src/topo/topology.h"

namespace rondo::cli {

/// An array: of each card its name, kind, position, and distance from each device of the topology.
[[nodiscard]] nlohmann::ordered_json nics_document(const Topology &topology);

/// For people.
[[nodiscard]] std::string nics_text(const nlohmann::ordered_json &nics);

}  // namespace rondo::cli
