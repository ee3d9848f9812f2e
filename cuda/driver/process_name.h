// SPDX-License-Identifier: Apache-2.0
// The name of a process on its host: its number, and when it started, since the system uses numbers again.
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
