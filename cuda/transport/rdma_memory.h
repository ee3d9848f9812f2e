// SPDX-License-Identifier: Apache-2.0
// Memory of a CUDA device that network cards read and write, for slots of links to other hosts (GPUDirect RDMA). The
// platform decides whether a kernel may read what a card has written. The driver reports that the order of writes is
// enough, or that the host can flush them. A card reads what a kernel has released at system scope.
#pragma once

#include <memory>
#include <string>

#include "cuda/driver/driver.h"
#include "src/links/rdma_memory.h"

namespace rondo::cuda {

/// The access to its memory that a device gives network cards.
struct GpuDirect {
  bool needs_flush = false;  ///< by the host, before a kernel of the device reads what a card wrote
  bool dmabuf = false;       ///< the driver gives out dmabufs
};

/// Returns RONDO_ERROR_UNSUPPORTED if cards cannot reach it, or a kernel cannot rely on the order of their writes.
[[nodiscard]] Result<GpuDirect> gpu_direct_of(const CudaDriver &driver, CuDevice device);

/// Allocates memory on the rank's device. It may wait for what runs there, as allocations do.
[[nodiscard]] Result<std::shared_ptr<const RdmaMemory>> allocate_rdma_memory(const std::string &library,
                                                                                 int32_t ordinal, size_t bytes);

}  // namespace rondo::cuda
