// SPDX-License-Identifier: Apache-2.0
// --bind core: the cores that this process may use, and which of them a rank gets.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/result.h"

namespace rondo::cli {

/// The processors of one core: hardware threads, as the kernel numbers them.
using CoreProcessors = std::vector<uint32_t>;

/// Returns the cores in the machine's order, each with the processors that this process is allowed to use.
[[nodiscard]] Result<std::vector<CoreProcessors>> allowed_cores();

/// Returns the core number `local_rank`, modulo the number of cores. `cores` is not empty.
[[nodiscard]] inline const CoreProcessors &core_of_rank(const std::vector<CoreProcessors> &cores, uint32_t local_rank) {
  return cores[local_rank % cores.size()];
}

/// Binds the calling thread. False: errno says why.
[[nodiscard]] bool bind_to(const CoreProcessors &processors);

}  // namespace rondo::cli
