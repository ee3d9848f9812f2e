// SPDX-License-Identifier: Apache-2.0
// This file allocates device memory that network cards read and write (GPUDirect RDMA), for slots of links to other
// hosts. It depends on the platform whether a kernel may read what a card has written. The driver reports whether such
// writes are in order, and whether the host can flush them. A card may read what a kernel has released at system scope.
#pragma once

#include <memory>
#include <string>

#include "cuda/driver/driver.h"
#include "src/links/links.h"

namespace rondo::cuda {

/// The access that network cards have to a device's memory.
struct GpuDirect {
  bool needs_flush = false;  ///< the host must flush before a kernel of the device reads what a card wrote
  bool dmabuf = false;       ///< the driver exports dmabufs
};

/// Returns RONDO_ERROR_UNSUPPORTED if cards cannot reach the memory, or a kernel cannot rely on the order of their
/// writes.
[[nodiscard]] Result<GpuDirect> gpu_direct_of(const CudaDriver &driver, CuDevice device);

/// Allocates memory on the rank's device. Like other allocations, it may wait for work that runs there.
[[nodiscard]] Result<std::shared_ptr<const RdmaMemory>> allocate_rdma_memory(const std::string &library,
                                                                                 int32_t ordinal, size_t bytes);

}  // namespace rondo::cuda
