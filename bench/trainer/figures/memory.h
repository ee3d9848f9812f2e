// SPDX-License-Identifier: Apache-2.0
// These functions count the memory that training takes: by purpose, as it was allocated, and as the system counts it.
#pragma once

#include <cstddef>

namespace rondo::train {

struct MemoryBytes {
  size_t parameters = 0, gradients = 0, optimizer = 0, activations = 0, communication = 0;
  size_t computation = 0;  ///< of the backend itself
  size_t measured = 0;     ///< growth since the process joined, without free memory; 0 if it is mostly a device's

  [[nodiscard]] size_t accounted() const {
    return parameters + gradients + optimizer + activations + communication + computation;
  }
};

/// Returns the private and shared memory of this process without files. A page that several processes map counts in
/// equal parts. 0 if the system does not report it.
[[nodiscard]] size_t process_memory_bytes();

/// A figure of /proc/self/status, "VmHWM:" for one; 0 where there is none.
[[nodiscard]] size_t process_status_bytes(const char *name);

}  // namespace rondo::train
