// SPDX-License-Identifier: Apache-2.0
// This kernel reduces the operands of a slice into one result, which copies cannot do. It waits for nothing, so its
// blocks need not be resident at once. The stream's order makes its input complete and publishes its result. The
// copy-engine executor (cuda/executors/copy_executor.cpp) launches it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/kernels/reduce.h"

namespace rondo::device {

/// The parameter of every kernel that reduces a slice. Its threads divide the elements among them.
struct ReductionOperation {
  const std::byte *inputs[inputs_max] = {};
  std::byte *output = nullptr;  ///< may be an input
  uint64_t count = 0;           ///< elements; their size is less than 4 GiB
  uint32_t input_count = 0;
  uint32_t divisor = 0;  ///< the number of ranks in the last step of an avg, otherwise 0
  MeanShifts mean_shifts = 0;
  ReduceOp op = ReduceOp::sum;
};
static_assert(std::is_trivially_copyable_v<ReductionOperation> && std::is_standard_layout_v<ReductionOperation>);
static_assert(sizeof(ReductionOperation) == 64 && offsetof(ReductionOperation, output) == 32);
static_assert(offsetof(ReductionOperation, input_count) == 48);

template <class Reducer, Group G>
RONDO_HD void reduce(G group, const ReductionOperation &operation) {
  GroupArgs args{};
  RONDO_UNROLL
  for (uint32_t input = 0; input < inputs_max; ++input) args.inputs[input] = operation.inputs[input];
  args.input_count = operation.input_count;
  args.outputs[0] = operation.output;
  args.output_count = 1;
  args.count = operation.count;
  args.divisor = operation.divisor;
  args.mean_shifts = operation.mean_shifts;
  Reducer::make(operation.divisor, operation.op, 0)(group, args);
}

}  // namespace rondo::device
