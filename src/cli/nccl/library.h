// SPDX-License-Identifier: Apache-2.0
// Where Rondo's libnccl.so.2 is, for those who preload it.
#pragma once

#include <string>
#include <vector>

#include "src/base/result.h"

namespace rondo::cli {

/// Returns the whole path of the library that belongs to this command.
[[nodiscard]] Result<std::string> nccl_library();

/// Adds LD_PRELOAD to what ranks are given ("NAME=value"), before what their LD_PRELOAD is otherwise.
[[nodiscard]] Result<void> preload_nccl(std::vector<std::string> &environment);

}  // namespace rondo::cli
