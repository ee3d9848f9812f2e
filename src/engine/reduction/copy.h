// SPDX-License-Identifier: Apache-2.0
// A reduction of one operand without a division is a copy. All types and processors share this code.
#pragma once

#include <cstring>

#include "src/engine/reduction/reduction.h"

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

}  // namespace rondo
