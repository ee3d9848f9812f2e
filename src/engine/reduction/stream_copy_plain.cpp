// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "src/engine/reduction/stream_copy.h"

namespace rondo {

void stream_copy(std::byte *to, const std::byte *from, size_t bytes) { std::memcpy(to, from, bytes); }

}  // namespace rondo
