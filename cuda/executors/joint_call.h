// SPDX-License-Identifier: Apache-2.0
// The calls of all ranks of a communicator as one joint kernel (cuda/kernels/joint.h): what each rank brings to it, and
// its launch.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/driver/kernel_set.h"
#include "cuda/kernels/joint.h"
#include "src/plan/plan.h"

namespace rondo::cuda {

/// The part of a load_store plan that is the same on all ranks whose calls have one signature.
struct JointPlan {
  LoadedKernel kernel;
  device::LoadStoreCollective collective = device::LoadStoreCollective::all_reduce;
  uint32_t root = 0;
  uint64_t count = 0;          ///< elements: of the vector, or of a block
  uint32_t element_bytes = 1;  ///< of a copy 1
};

/// Makes the joint plan from `operation`, which the plan passes to kernels of load_store.
[[nodiscard]] JointPlan make_joint_plan(const Plan &plan, const device::LoadStoreOperation &operation,
                                        const LoadedKernel &kernel);

/// A call, which is the same on all ranks except for blocks_max: their settings may have made it different.
struct JointCall {
  uint32_t divisor = 0;
  uint32_t captured = 0;
  uint32_t blocks_max = 1;  ///< of the grid; but each rank's data block, where there are such, has one
};

struct JointLaunch {
  device::JointOperation operation;
  LaunchSize size;
};
/// Makes the joint kernel of all `ranks`, 2 to device::ranks_per_kernel_max, in their order.
[[nodiscard]] JointLaunch make_joint(const JointPlan &plan, const JointCall &call,
                                     std::span<const device::JointRank> ranks);

}  // namespace rondo::cuda
