// SPDX-License-Identifier: Apache-2.0
// These functions describe network cards for `rondo info`: their positions, and their distances from each device.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "src/topo/topology.h"

namespace rondo::cli {

/// Returns an array. For each card, it has the name, kind and position, and the distance from each device.
[[nodiscard]] nlohmann::ordered_json nics_document(const Topology &topology);

/// Returns the text for people.
[[nodiscard]] std::string nics_text(const nlohmann::ordered_json &nics);

}  // namespace rondo::cli
