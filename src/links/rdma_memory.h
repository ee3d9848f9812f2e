// SPDX-License-Identifier: Apache-2.0
// This interface is memory of a device that network cards read and write themselves (GPUDirect RDMA).
// cuda/transport/rdma_memory.h implements it, and networks use it.
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
  /// Runs `work` while the device is current on this thread. Networks that know devices need this for all their calls.
  virtual void run(const std::function<void()> &work) const = 0;
  /// Makes all data that the network reported as received before this call visible to kernels. Only kernels that the
  /// host informs after this call are sure to see them. The caller must be inside of run().
  [[nodiscard]] virtual Result<void> flush() const = 0;
};

}  // namespace rondo
