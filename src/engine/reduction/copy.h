// SPDX-License-Identifier: Apache-2.0
// These functions copy operands. A reduction of one operand without a division is a copy, and all types and processors
// share its code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "src/engine/reduction/reduction.h"
#include "src/proto/connection.h"

namespace rondo {

[[nodiscard]] inline bool is_copy(const ReductionArgs &args) {
  return args.input_count == 1 && args.divisor == 0 && args.more.empty();
}

inline void copy_to_outputs(const ReductionArgs &args, size_t element_bytes) {
  if (args.count == 0) return;  // pointers may be null then
  for (uint32_t output = 0; output < args.output_count; ++output)
    if (args.outputs[output] != args.inputs[0])
      std::memcpy(args.outputs[output], args.inputs[0], args.count * element_bytes);
}

/// Returns the bytes from `to` to the begin of the next cache line, or 0 if `to` is the begin of one.
inline size_t bytes_to_line(const std::byte *to) {
  return (cache_line_bytes - reinterpret_cast<uintptr_t>(to) % cache_line_bytes) % cache_line_bytes;
}

/// Copies like memcpy(), but past the caches, for results that exceed them. A line that is written whole need not be
/// read first. A thread that sees a later release store of this thread sees all of the copy.
void stream_copy(std::byte *to, const std::byte *from, size_t bytes);

}  // namespace rondo
