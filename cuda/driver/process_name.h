// SPDX-License-Identifier: Apache-2.0
// What a process is called among those of its host: its number, and when it started, since numbers are used again.
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
