// SPDX-License-Identifier: Apache-2.0
// This file builds the CUDA part of `rondo info`: the driver (or why there is none), the kernels of this build, and the
// devices. For each device it shows which resources the kernels use.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "src/base/config.h"

namespace rondo::cli {

/// Loads the kernels on every device, which takes a moment. The document says how much memory each of `rank_count`
/// ranks would use.
[[nodiscard]] nlohmann::ordered_json cuda_document(const Config &config, uint32_t rank_count);

/// Returns the text for people. It has a line for each kernel that differs from the kernel before it.
[[nodiscard]] std::string cuda_text(const nlohmann::ordered_json &cuda);

}  // namespace rondo::cli
