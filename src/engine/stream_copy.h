// SPDX-License-Identifier: Apache-2.0
// A copy past the caches, for results larger than they are: a line that is written whole need not be fetched first.
#pragma once

#include <cstddef>

namespace rondo {

/// As memcpy(). All of it is visible to whoever sees a later release store of this thread.
void stream_copy(std::byte *to, const std::byte *from, size_t bytes);

}  // namespace rondo
