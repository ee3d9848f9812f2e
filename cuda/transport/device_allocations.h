// SPDX-License-Identifier: Apache-2.0
// This file has the memory of rondo_device_mem_alloc(). If the device supports it, the memory is physical memory with a
// descriptor, which other processes map without a pause of the device. Otherwise it is memory of cuMemAlloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "src/base/result.h"

namespace rondo::cuda {

/// Allocates memory. `library` is Config::cuda_library. Any thread may call these functions.
[[nodiscard]] Result<void *> allocate_for_peers(const std::string &library, int32_t device, size_t bytes);
/// Frees such memory. RONDO_ERROR_INVALID_ARGUMENT: `pointer` is not its start.
[[nodiscard]] Result<void> free_for_peers(void *pointer);

/// A range within such memory that other processes can map.
struct MappableRange {
  int descriptor = -1;  ///< owned by the memory
  uint64_t offset = 0;  ///< of the range in the memory
  uint64_t memory_bytes = 0;
};
/// Returns where the bytes lie in such memory, or none if the memory is of another kind or has no descriptor.
[[nodiscard]] std::optional<MappableRange> find_mappable(const void *pointer, size_t bytes);

}  // namespace rondo::cuda
