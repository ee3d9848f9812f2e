// SPDX-License-Identifier: Apache-2.0
// This file names a process on its host by its number and start time, because the system reuses numbers.
#pragma once

#include <cstdint>

namespace rondo::cuda {

struct ProcessName {
  uint64_t pid = 0;
  uint64_t start_ticks = 0;  ///< since boot

  bool operator==(const ProcessName &) const = default;
};

[[nodiscard]] ProcessName own_process();

}  // namespace rondo::cuda
