// SPDX-License-Identifier: Apache-2.0
// These functions count the memory that training takes: by purpose, as it was allocated, and as the system counts it.
#pragma once

#include <cstddef>

namespace rondo::train {

struct MemoryBytes {
  size_t parameters = 0, gradients = 0, optimizer = 0, activations = 0, communication = 0;
  size_t computation = 0;  ///< of the backend itself
  size_t measured = 0;     ///< what the process has more than before it joined the others, after what is free went
                           ///< back; 0 where nearly all is a device's

  [[nodiscard]] size_t accounted() const {
    return parameters + gradients + optimizer + activations + communication + computation;
  }
};

/// Private and shared memory of this process without files, where a page that several processes map counts in equal
/// parts; 0 where the system does not tell.
[[nodiscard]] size_t process_memory_bytes();

/// A figure of /proc/self/status, "VmHWM:" for one; 0 where there is none.
[[nodiscard]] size_t process_status_bytes(const char *name);

}  // namespace rondo::train
