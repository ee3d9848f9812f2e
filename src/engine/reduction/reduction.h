// SPDX-License-Identifier: Apache-2.0
// The host's reducer reduces the operands of a step and writes the result to all its outputs in one pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "rondo/rondo.h"
#include "src/base/result.h"
#include "src/proto/connection.h"
#include "src/proto/mean.h"

namespace rondo {

inline constexpr uint32_t reduce_inputs_max = 4;   // acc, src, recv[0], recv[1]
inline constexpr uint32_t reduce_outputs_max = 3;  // dst, send[0], send[1]

/// The arguments of a reduction. Pointers need no alignment. An output may equal an input (acc and dst), but may not
/// overlap one otherwise. Do not make one with `{}`: clearing the arrays takes longer than a small reduction.
struct ReductionArgs {
  const std::byte *inputs[reduce_inputs_max];
  std::byte *outputs[reduce_outputs_max];
  uint32_t input_count = 0;     ///< 1..reduce_inputs_max
  uint32_t output_count = 0;    ///< 1..reduce_outputs_max
  size_t count = 0;             ///< elements
  uint32_t divisor = 0;         ///< the number of ranks in the last step of an avg, otherwise 0
  MeanShifts mean_shifts = 0;   ///< shifts of an avg's float inputs; the last byte applies to all of `more`
  bool past_caches = false;     ///< a hint for one large output: write it as stream_copy() does
  /// Operands after the inputs, in a call of reduce_in_rank_order(), otherwise empty. Each begins at `more_at`.
  std::span<const std::byte *const> more;
  size_t more_at = 0;  ///< offset in bytes

  void add_input(const std::byte *input) { inputs[input_count++] = input; }
  void add_output(std::byte *output) { outputs[output_count++] = output; }
};

/// Computes outputs[*][i] = round((inputs[0][i] op inputs[1][i]) op inputs[2][i] ...), from the left, with `more` after
/// the inputs. Floats of 8 and 16 bits are reduced and divided in fp32 and rounded once, to nearest even. Other types
/// are computed as they are. avg divides integers by the divisor, and scales floats as src/proto/mean.h says.
using ReductionFunction = void (*)(const ReductionArgs &);

/// Returns the fastest function that this processor runs, or null for an unknown type or operation. All functions give
/// equal bits, except for a NaN's payload. The first call reads RONDO_SIMD=plain|avx2|avx512|avx512_bf16, which forces
/// one. If its value is unknown or cannot run here, it is ignored, and a log line lists the known values.
[[nodiscard]] ReductionFunction reduce_function(rondo_type_t type, rondo_op_t op);

/// Returns the function in plain C++, the reference for the others.
[[nodiscard]] ReductionFunction reduce_function_plain(rondo_type_t type, rondo_op_t op);

/// Returns the name of the implementation that reduce_function() chose: "avx512_bf16", "avx512", "avx2", "plain".
[[nodiscard]] const char *reduce_target();

/// An implementation of these functions. A new one needs a file, and a line in targets_*.cpp.
struct ReductionTarget {
  const char *name;
  bool (*runs_here)();                                     ///< returns whether this processor can run it
  ReductionFunction (*find)(rondo_type_t type, rondo_op_t op);  ///< returns null for an unknown type or operation
};

/// Returns the implementations that were built, the fastest first. The last one is plain C++, which runs everywhere.
[[nodiscard]] std::span<const ReductionTarget> reduce_targets();

/// Returns the implementation called `wanted`. For an empty name, returns the fastest one that runs here.
[[nodiscard]] Result<const ReductionTarget *> choose_reduce_target(std::string_view wanted);

// A reduction of one operand without a division is a copy, and all types and processors share its code.

[[nodiscard]] inline bool is_copy(const ReductionArgs &args) {
  return args.input_count == 1 && args.divisor == 0 && args.more.empty();
}

inline void copy_to_outputs(const ReductionArgs &args, size_t element_bytes) {
  if (args.count == 0) return;  // without elements, pointers may be null
  for (uint32_t output = 0; output < args.output_count; ++output)
    if (args.outputs[output] != args.inputs[0])
      std::memcpy(args.outputs[output], args.inputs[0], args.count * element_bytes);
}

/// Returns the bytes from `to` to the begin of the next cache line, or 0 if `to` is the begin of one.
inline size_t bytes_to_line(const std::byte *to) {
  return (cache_line_bytes - reinterpret_cast<uintptr_t>(to) % cache_line_bytes) % cache_line_bytes;
}

/// Copies like memcpy(), but past the caches, for results that exceed them. The processor need not read a line that is
/// written whole. A thread that sees a later release store of this thread sees all of the copy.
void stream_copy(std::byte *to, const std::byte *from, size_t bytes);

}  // namespace rondo
