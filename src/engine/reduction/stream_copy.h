// SPDX-License-Identifier: Apache-2.0
// This copy bypasses the caches, for results that exceed them. A line that is written whole need not be read first.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/proto/connection.h"

namespace rondo {

/// Returns the bytes from `to` to the begin of the next cache line, or 0 if `to` is the begin of one.
inline size_t bytes_to_line(const std::byte *to) {
  return (cache_line_bytes - reinterpret_cast<uintptr_t>(to) % cache_line_bytes) % cache_line_bytes;
}

/// Copies like memcpy(). A thread that sees a later release store of this thread sees all of the copy.
void stream_copy(std::byte *to, const std::byte *from, size_t bytes);

}  // namespace rondo
