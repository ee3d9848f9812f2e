// SPDX-License-Identifier: Apache-2.0
#include "cuda/executors/joint_call.h"

#include <algorithm>

#include "cuda/driver/budget.h"
#include "cuda/kernels/plan_image.h"
#include "src/base/arithmetic.h"

namespace rondo::cuda {
namespace {

constexpr uint64_t vector_bytes = 16;
// With more words than this, threads process whole vectors.
constexpr uint64_t words_max = (128 << 10) / device::word_bytes;

/// Returns the number of words if a joint kernel processes the all-reduce by words, or 0.
uint32_t word_count(const JointPlan &plan, const device::JointOperation &operation) {
  if (plan.collective != device::LoadStoreCollective::all_reduce || plan.element_bytes == 1) return 0;
  const uint64_t bytes = plan.count * plan.element_bytes;
  uint64_t addresses = bytes;
  for (const device::JointRank &rank : operation.ranks)
    addresses |= reinterpret_cast<uintptr_t>(rank.send) | reinterpret_cast<uintptr_t>(rank.recv);
  const uint64_t words = bytes / device::word_bytes;
  return addresses % device::word_bytes != 0 || words > words_max ? 0 : static_cast<uint32_t>(words);
}

/// Returns the number of blocks with which each thread has one word, or one vector of each rank. Blocks of a joint
/// kernel do not wait for each other, so there may be more blocks than can be resident.
uint32_t block_count(const JointPlan &plan, const device::JointOperation &operation, uint32_t blocks_max) {
  const uint64_t threads = block_threads_max;
  const auto within = [](uint64_t wanted, uint64_t most) {
    return static_cast<uint32_t>(std::clamp<uint64_t>(wanted, 1, most));
  };
  if (operation.word_count != 0) return within(ceil_div<uint64_t>(operation.word_count, threads), blocks_max);
  const uint32_t routes = device::has_blocks(plan.collective) ? operation.rank_count : 1;
  const uint64_t wanted = ceil_div<uint64_t>(plan.count * plan.element_bytes, threads * vector_bytes);
  const uint64_t most = std::max<uint64_t>(blocks_max / routes, 1);
  return routes * within(wanted, most);
}

}  // namespace

JointPlan make_joint_plan(const Plan &plan, const device::LoadStoreOperation &operation, const LoadedKernel &kernel) {
  return {.kernel = kernel,
          .collective = operation.collective,
          .root = operation.root,
          .count = operation.count,
          .element_bytes = device::load_store_element_bytes(plan),
          .op = device::reduce_op(plan)};
}

JointLaunch make_joint(const JointPlan &plan, const JointCall &call, std::span<const device::JointRank> ranks) {
  JointLaunch made;
  device::JointOperation &operation = made.operation;
  std::fill(std::begin(operation.ranks), std::end(operation.ranks), ranks.front());
  std::copy(ranks.begin(), ranks.end(), operation.ranks);
  operation.count = plan.count;
  operation.rank_count = static_cast<uint32_t>(ranks.size());
  operation.divisor = call.divisor;
  operation.collective = plan.collective;
  operation.root = plan.root;
  operation.op = plan.op;
  operation.captured = call.captured;
  operation.word_count = word_count(plan, operation);
  operation.block_count = block_count(plan, operation, call.blocks_max);
  made.size = {operation.block_count, block_threads_max, device::joint_shared_bytes()};
  return made;
}

}  // namespace rondo::cuda
