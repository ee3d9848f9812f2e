// SPDX-License-Identifier: Apache-2.0
// This file opens buffers of other ranks of the host for writing.
#pragma once

#include <cstdint>
#include <memory>

#include "src/base/result.h"
#include "src/links/remote_memory.h"

namespace rondo::shm {

/// The process of the rank whose buffer is opened.
struct MemoryOwner {
  int process = 0;
  bool same_process = false;
  uint64_t device = 0;  ///< device number of all memfds
  uint32_t kinds = 0;   ///< kinds of buffers that ranks of other processes can reach, as bits of PayloadKind
};

/// Opens a buffer. RONDO_ERROR_UNSUPPORTED, with the reason: this process cannot write to it.
[[nodiscard]] Result<std::shared_ptr<const RemoteMemory>> open_remote_memory(const MemoryOwner &owner,
                                                                             const MemoryPlace &place);

}  // namespace rondo::shm
