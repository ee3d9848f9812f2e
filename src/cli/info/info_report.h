// SPDX-License-Identifier: Apache-2.0
// This file builds the report of `rondo info` as one JSON document. The text is made from the document, so both agree.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "src/base/config.h"
#include "src/cli/capabilities.h"
#include "src/plan/tuning_table.h"
#include "src/topo/topology.h"

namespace rondo::cli {

struct InfoInput {
  Config config;
  DeviceDiscovery found;  ///< devices of this machine, or from a file
  Capabilities capabilities;
  TuningTable table;        ///< the table that RONDO_TUNING_FILE names
  uint32_t rank_count = 1;  ///< the ranks whose plans are shown
  uint32_t host_count = 1;  ///< the hosts of these ranks
};

[[nodiscard]] nlohmann::ordered_json info_document(const InfoInput &input);
[[nodiscard]] std::string info_text(const nlohmann::ordered_json &document);

}  // namespace rondo::cli
