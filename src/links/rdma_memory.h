// SPDX-License-Identifier: Apache-2.0
// This interface is device memory that network cards read and write without the host (GPUDirect RDMA). Networks use it,
// and cuda/transport/rdma_memory.h implements it.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "src/base/result.h"

namespace rondo {

class RdmaMemory {
 public:
  virtual ~RdmaMemory() = default;

  /// Returns the memory, at the device's addresses. It begins and ends at a page of the host.
  [[nodiscard]] virtual std::span<std::byte> bytes() const = 0;
  /// Returns whether the host can read and write the memory at these addresses, too.
  [[nodiscard]] virtual bool is_in_reach_of_host() const = 0;
  /// Returns a dmabuf that contains bytes(), or -1.
  [[nodiscard]] virtual int dmabuf() const = 0;
  /// Runs `work` while the device is current on this thread. Networks whose libraries know devices make all calls so.
  virtual void run(const std::function<void()> &work) const = 0;
  /// Makes data visible to kernels if the network reported its arrival before this call. A kernel is sure to see the
  /// data only if the host signals the kernel after this call. The caller must be inside run().
  [[nodiscard]] virtual Result<void> flush() const = 0;
};

}  // namespace rondo
