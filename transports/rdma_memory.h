// SPDX-License-Identifier: Apache-2.0
// Memory of a device that network cards read and write themselves (GPUDirect RDMA). It is made by what knows the device
// (cuda/transport/rdma_memory.h); networks take it as it is.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "src/base/result.h"

namespace rondo {

class RdmaMemory {
 public:
  virtual ~RdmaMemory() = default;

  /// At the device's addresses. They begin and end at a page of the host.
  [[nodiscard]] virtual std::span<std::byte> bytes() const = 0;
  /// The host reads and writes it there, too.
  [[nodiscard]] virtual bool is_in_reach_of_host() const = 0;
  /// Of a dmabuf that holds bytes(); -1: there is none.
  [[nodiscard]] virtual int dmabuf() const = 0;
  /// Runs `work` with the device current on this thread: networks that know devices want that for all calls.
  virtual void run(const std::function<void()> &work) const = 0;
  /// What a network's completions say is in the memory can be read by kernels that the host tells of it from now on.
  /// From within run().
  [[nodiscard]] virtual Result<void> flush() const = 0;
};

}  // namespace rondo
