// SPDX-License-Identifier: Apache-2.0
// Describes network cards for `rondo info`: where each is, and its distance from each device.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "src/topo/topology.h"

namespace rondo::cli {

/// Returns an array with the name, kind and position of each card, and its distance from each device of the topology.
[[nodiscard]] nlohmann::ordered_json nics_document(const Topology &topology);

/// Returns the text for people.
[[nodiscard]] std::string nics_text(const nlohmann::ordered_json &nics);

}  // namespace rondo::cli
