// SPDX-License-Identifier: Apache-2.0
// This file joins the calls of all ranks of a communicator into one kernel (cuda/kernels/joint.h), and launches it.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/driver/kernel_set.h"
#include "cuda/kernels/joint.h"
#include "src/plan/plan.h"

namespace rondo::cuda {

/// The part of a load_store plan that is equal on all ranks whose calls have the same signature.
struct JointPlan {
  LoadedKernel kernel;
  device::LoadStoreCollective collective = device::LoadStoreCollective::all_reduce;
  uint32_t root = 0;
  uint64_t count = 0;          ///< elements of the vector, or of a block
  uint32_t element_bytes = 1;  ///< 1 for a copy
  ReduceOp op = ReduceOp::sum;
};

/// Makes the joint plan from `operation`, which the plan passes to kernels of load_store.
[[nodiscard]] JointPlan make_joint_plan(const Plan &plan, const device::LoadStoreOperation &operation,
                                        const LoadedKernel &kernel);

/// A call of all ranks. Only blocks_max may differ between ranks, because each rank has its own settings.
struct JointCall {
  uint32_t divisor = 0;
  uint32_t captured = 0;
  uint32_t blocks_max = 1;  ///< most thread blocks of the grid; more if each rank's block of data needs one
};

struct JointLaunch {
  device::JointOperation operation;
  LaunchSize size;
};
/// Makes the joint kernel of all `ranks` in their order. There are 2 to device::ranks_per_kernel_max of them.
[[nodiscard]] JointLaunch make_joint(const JointPlan &plan, const JointCall &call,
                                     std::span<const device::JointRank> ranks);

}  // namespace rondo::cuda
