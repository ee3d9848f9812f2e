// SPDX-License-Identifier: Apache-2.0
// This file registers memory for RDMA. If possible, the bus may reorder the card's accesses
// (IBV_ACCESS_RELAXED_ORDERING), which is faster on many hosts. Both ends read memory only after a completion, so the
// order of writes does not matter.
#pragma once

#include <string>

#include "src/links/rdma_memory.h"
#include "transports/verbs/api.h"

namespace rondo::verbs {

/// Returns the address as the card knows it.
[[nodiscard]] inline uint64_t address_of(const void *memory) { return reinterpret_cast<uint64_t>(memory); }

/// Registers memory of the host.
[[nodiscard]] Result<MemoryRegion> register_host(const Api &api, ibv_pd *domain, void *memory, size_t bytes,
                                                 int access);

/// Registers a part of device memory by its dmabuf, if the memory has one and the card's driver supports that.
/// Otherwise registers the address, which the kernel module nvidia-peermem resolves. `card` is a name for people.
[[nodiscard]] Result<MemoryRegion> register_in_device(const Api &api, const std::string &card, ibv_pd *domain,
                                                      const RdmaMemory &memory, std::byte *first, size_t bytes,
                                                      int access);

}  // namespace rondo::verbs
