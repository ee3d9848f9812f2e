// SPDX-License-Identifier: Apache-2.0
// This file finds Rondo's libnccl.so.2, for preloading it.
#pragma once

#include <string>
#include <vector>

#include "src/base/result.h"

namespace rondo::cli {

/// Returns the whole path of the library that belongs to this command.
[[nodiscard]] Result<std::string> nccl_library();

/// Adds LD_PRELOAD to the entries ("NAME=value") for ranks. The library precedes those that LD_PRELOAD has already.
[[nodiscard]] Result<void> preload_nccl(std::vector<std::string> &environment);

}  // namespace rondo::cli
