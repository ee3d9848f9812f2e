// SPDX-License-Identifier: Apache-2.0
// This file counts the memory of training. Allocations show it by purpose, and the system reports the total.
#pragma once

#include <cstddef>

namespace rondo::train {

struct MemoryBytes {
  size_t parameters = 0, gradients = 0, optimizer = 0, activations = 0, communication = 0;
  size_t computation = 0;  ///< used by the backend itself
  size_t measured = 0;     ///< growth since the process joined, without free memory; 0 if most memory is on a device

  [[nodiscard]] size_t accounted() const {
    return parameters + gradients + optimizer + activations + communication + computation;
  }
};

/// Returns the private and shared memory of this process in bytes, without files. If several processes map a page, an
/// equal part of it counts for each. Returns 0 if the system does not report this.
[[nodiscard]] size_t process_memory_bytes();

/// Returns a figure of /proc/self/status, such as "VmHWM:", or 0 if it does not exist.
[[nodiscard]] size_t process_status_bytes(const char *name);

}  // namespace rondo::train
