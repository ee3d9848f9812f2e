// SPDX-License-Identifier: Apache-2.0
// This interface represents device memory that network cards read and write without the host (GPUDirect RDMA). Networks
// use the interface, and cuda/transport/rdma_memory.h implements it.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "src/base/result.h"

namespace rondo {

class RdmaMemory {
 public:
  virtual ~RdmaMemory() = default;

  /// Returns the memory, at the device's addresses. It begins and ends at page boundaries of the host.
  [[nodiscard]] virtual std::span<std::byte> bytes() const = 0;
  /// Returns whether the host, too, can read and write the memory at the addresses of bytes().
  [[nodiscard]] virtual bool is_in_reach_of_host() const = 0;
  /// Returns a dmabuf that contains bytes(), or -1.
  [[nodiscard]] virtual int dmabuf() const = 0;
  /// Runs `work` while the device is current on this thread. Network libraries that use devices need this.
  virtual void run(const std::function<void()> &work) const = 0;
  /// Makes data visible to kernels if the network has reported their arrival before this call. To be sure to see the
  /// data, a kernel must wait for a signal that the host gives after this call. Call this function inside run().
  [[nodiscard]] virtual Result<void> flush() const = 0;
};

}  // namespace rondo
