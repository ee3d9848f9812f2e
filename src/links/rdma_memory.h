// SPDX-License-Identifier: Apache-2.0
// Memory of a device that network cards read and write themselves (GPUDirect RDMA). cuda/transport/rdma_memory.h makes
// it. Networks only use it.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "src/base/result.h"

namespace rondo {

class RdmaMemory {
 public:
  virtual ~RdmaMemory() = default;

  /// Returns the memory at the device's addresses. They begin and end at a page of the host.
  [[nodiscard]] virtual std::span<std::byte> bytes() const = 0;
  /// Says whether the host can read and write the memory there, too.
  [[nodiscard]] virtual bool is_in_reach_of_host() const = 0;
  /// Returns a dmabuf that holds bytes(); -1 if there is none.
  [[nodiscard]] virtual int dmabuf() const = 0;
  /// Runs `work` with the device current on this thread: networks that know devices want that for all calls.
  virtual void run(const std::function<void()> &work) const = 0;
  /// Makes what a network's completions report readable by kernels to which the host announces it afterwards. Call it
  /// from within run().
  [[nodiscard]] virtual Result<void> flush() const = 0;
};

}  // namespace rondo
