// SPDX-License-Identifier: Apache-2.0
// A copy past the caches, for results larger than they are: a line that is written whole need not be fetched first.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/proto/connection.h"

namespace rondo {

/// Returns the bytes from `to` to the next cache line's beginning; 0 if `to` is one.
inline size_t bytes_to_line(const std::byte *to) {
  return (cache_line_bytes - reinterpret_cast<uintptr_t>(to) % cache_line_bytes) % cache_line_bytes;
}

/// Copies as memcpy() does. All of it is visible to a thread that sees a later release store of this one.
void stream_copy(std::byte *to, const std::byte *from, size_t bytes);

}  // namespace rondo
