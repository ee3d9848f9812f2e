// SPDX-License-Identifier: Apache-2.0
// Memory of a CUDA device that network cards read and write, for slots of links to other hosts (GPUDirect RDMA).
// Whether a kernel may read what a card has written is up to the platform: the driver says if the order of writes is
// enough, or that the host can flush them. A card reads what a kernel has released at system scope.
#pragma once

#include <memory>
#include <string>

#include "cuda/driver/driver.h"
#include "transports/rdma_memory.h"

namespace rondo::cuda {

/// What a device lets network cards do with its memory.
struct GpuDirect {
  bool needs_flush = false;  ///< by the host, before a kernel of the device reads what a card wrote
  bool dmabuf = false;       ///< the driver gives out dmabufs
};

/// RONDO_ERROR_UNSUPPORTED: cards cannot reach it, or what they write is in no order that a kernel can rely on.
[[nodiscard]] Result<GpuDirect> gpu_direct_of(const CudaDriver &driver, CuDevice device);

/// For the rank's device. It may wait for what runs there, as allocations do.
[[nodiscard]] Result<std::shared_ptr<const RdmaMemory>> allocate_rdma_memory(const std::string &library,
                                                                                 int32_t ordinal, size_t bytes);

}  // namespace rondo::cuda
