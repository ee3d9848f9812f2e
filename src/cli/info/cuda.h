// SPDX-License-Identifier: Apache-2.0
// What `rondo info` tells of CUDA: the driver or why there is none, the kernels of this build, the devices, and what
// the kernels take of each.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "src/base/config.h"

namespace rondo::cli {

/// Loads the kernels on every device, which takes a moment there.
[[nodiscard]] nlohmann::ordered_json cuda_document(const Config &config);

/// For people, with a line for each kernel that differs from the one above it.
[[nodiscard]] std::string cuda_text(const nlohmann::ordered_json &cuda);

}  // namespace rondo::cli
