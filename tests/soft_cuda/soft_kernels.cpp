// SPDX-License-Identifier: Apache-2.0
// This file has the kernels of one family for emulated blocks, which the driver in software loads like librondo's
// image. It is compiled once for each family (RONDO_SOFT_FAMILY), and soft_kernel_list.cpp joins the families.
#include "cuda/kernels/list.h"
#include "tests/soft_cuda/counting.h"
#include "tests/soft_cuda/emulated_block.h"

namespace {

using namespace rondo::device;

/// Returns the operation of a block's rank, and whether the block is that rank's first one. A channel without work in a
/// plan also has a block.
[[maybe_unused]] const DeviceOperation &operation_of(const DeviceOperations &operations, uint32_t block,
                                                     bool &is_first) {
  is_first = operations.channel_of_block(block) == 0;
  return operations.of_block(block);
}
[[maybe_unused]] const DeviceOperation &operation_of(const LoadStoreOperation &operation, uint32_t block,
                                                     bool &is_first) {
  is_first = block == 0;
  return operation.base;
}

/// Returns rank 0, because all accesses of a joint kernel count as accesses of rank 0.
[[maybe_unused]] const JointRank &operation_of(const JointOperation &operation, uint32_t block, bool &is_first) {
  is_first = block == 0;
  return operation.ranks[0];
}

/// Runs a kernel and counts its accesses.
template <class Operation, soft_cuda::KernelFunction function>
void counted(soft_cuda::Block &block, uint32_t thread, void *const *parameters) {
  bool is_first = false;
  const auto &base = operation_of(*static_cast<const Operation *>(parameters[0]), block.index, is_first);
  const soft_cuda::CountedThread counts(block, thread, base.progress, is_first);
  function(block, thread, parameters);
}

#define RONDO_SOFT_KERNEL(name, Protocol, ...) \
  {#name, counted<DeviceOperations, soft_cuda::run_emulated<Protocol, __VA_ARGS__>>, sizeof(DeviceOperations)},
#define RONDO_SOFT_LOAD_STORE(name, ...) \
  {#name, counted<LoadStoreOperation, soft_cuda::run_load_store_emulated<__VA_ARGS__>>, sizeof(LoadStoreOperation)},
#define RONDO_SOFT_ONE_SHOT(name, ...)                                               \
  {#name, counted<LoadStoreOperation, soft_cuda::run_load_store_emulated<__VA_ARGS__, true>>, \
   sizeof(LoadStoreOperation)},
#define RONDO_SOFT_JOINT(name, ...) \
  {#name, counted<JointOperation, soft_cuda::run_joint_emulated<__VA_ARGS__>>, sizeof(JointOperation)},
#define RONDO_SOFT_REDUCE(name, ...) \
  {#name, soft_cuda::reduce_emulated<__VA_ARGS__>, sizeof(ReductionOperation)},

#define RONDO_SOFT_LIST_simple RONDO_KERNELS_OF_PROTOCOL(RONDO_SOFT_KERNEL, simple, GroupSimple)
#define RONDO_SOFT_LIST_ll RONDO_KERNELS_OF_PROTOCOL(RONDO_SOFT_KERNEL, ll, GroupLl)
#define RONDO_SOFT_LIST_load_store RONDO_LOAD_STORE_KERNELS(RONDO_SOFT_LOAD_STORE)
#define RONDO_SOFT_LIST_one_shot RONDO_ONE_SHOT_KERNELS(RONDO_SOFT_ONE_SHOT)
#define RONDO_SOFT_LIST_joint RONDO_JOINT_KERNELS(RONDO_SOFT_JOINT)
#define RONDO_SOFT_LIST_reduce RONDO_REDUCE_KERNELS(RONDO_SOFT_REDUCE)
#define RONDO_SOFT_JOIN_2(first, second) first##second
#define RONDO_SOFT_JOIN(first, second) RONDO_SOFT_JOIN_2(first, second)

constexpr soft_cuda::KernelEntry entries[] = {
    RONDO_SOFT_JOIN(RONDO_SOFT_LIST_, RONDO_SOFT_FAMILY){nullptr, nullptr, 0}};

}  // namespace

const soft_cuda::KernelEntry *RONDO_SOFT_JOIN(soft_kernels_of_, RONDO_SOFT_FAMILY)() { return entries; }
