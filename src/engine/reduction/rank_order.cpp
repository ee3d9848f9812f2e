// SPDX-License-Identifier: Apache-2.0
#include "src/engine/reduction/rank_order.h"

#include <algorithm>
#include <cassert>

namespace rondo {
namespace {

constexpr size_t small_bytes = 16;    // up to this, a plain loop is faster than a vector and its tail
constexpr size_t block_bytes = 4096;  // together with the operands' blocks, it fits into the first-level cache

/// Appends operands[first, last), each from byte `offset` on, to the inputs of `args`.
void add_operands(ReductionArgs &args, std::span<const std::byte *const> operands, size_t first, size_t last,
                  size_t offset) {
  for (size_t index = first; index < last; ++index) args.inputs[args.input_count++] = operands[index] + offset;
}

/// Returns the shifts of operands [first, last). If `first` is not 0, operand `first` is the partial result of all
/// earlier operands. Rounded partial results have the same levels (src/proto/mean.h) as in the steps of a schedule.
MeanShifts shifts_of(Partials partials, size_t rank_count, size_t first, size_t last) {
  const auto before = static_cast<uint32_t>(first);
  if (partials != Partials::rounded) {
    const MeanShifts all = mean_shifts_alike(static_cast<uint32_t>(rank_count));
    return first == 0 ? all : all & ~MeanShifts{0xFF};
  }
  const uint32_t summed[] = {first == 0 ? 1 : before, 1};
  assert(last - first == (first == 0 ? 2u : 1u));
  return mean_shifts(summed);
}

}  // namespace

ReductionFunction reduce_function(const HostReducer &reducer, size_t bytes) {
  return bytes <= small_bytes ? reducer.small_function : reducer.function;
}

void reduce_in_rank_order(const HostReducer &reducer, std::span<const std::byte *const> operands,
                   std::span<std::byte *const> outputs, size_t count, uint32_t element_bytes, Partials partials,
                   bool past_caches) {
  assert(operands.size() >= 2 && outputs.size() <= reduce_outputs_max);
  const ReductionFunction function = reduce_function(reducer, count * element_bytes);
  if (partials == Partials::wide && operands.size() > reduce_inputs_max) {
    ReductionArgs args;
    args.count = count;
    add_operands(args, operands, 0, reduce_inputs_max, 0);
    args.more = operands.subspan(reduce_inputs_max);
    for (std::byte *const output : outputs) args.add_output(output);
    args.divisor = reducer.divisor;
    args.mean_shifts = mean_shifts_alike(reducer.divisor);
    args.past_caches = past_caches;
    return function(args);
  }
  const size_t at_once = partials == Partials::rounded ? 2 : reduce_inputs_max;
  alignas(cache_line_bytes) std::byte partial[block_bytes];
  const size_t whole = operands.size() <= at_once ? count : block_bytes / element_bytes;
  for (size_t begin = 0; begin < count; begin += whole) {
    const size_t offset = begin * element_bytes;
    for (size_t next = 0; next < operands.size();) {  // the partial result waits in `partial` for the next operands
      ReductionArgs args;
      args.count = std::min(whole, count - begin);
      if (next != 0) args.inputs[args.input_count++] = partial;
      const size_t last = std::min(operands.size(), next + at_once - args.input_count);
      add_operands(args, operands, next, last, offset);
      if (reducer.divisor != 0) args.mean_shifts = shifts_of(partials, operands.size(), next, last);
      next = last;
      if (next == operands.size()) {
        for (std::byte *const output : outputs) args.outputs[args.output_count++] = output + offset;
        args.divisor = reducer.divisor;
        args.past_caches = past_caches;
      } else {
        args.outputs[args.output_count++] = partial;
      }
      function(args);
    }
  }
}

}  // namespace rondo
