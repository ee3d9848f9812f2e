// SPDX-License-Identifier: Apache-2.0
// Every kernel for emulated blocks: what librondo's image is to a device, this library is to the driver in software.
#include "cuda/kernels/list.h"
#include "tests/soft_cuda/emulated_block.h"

namespace {

#define RONDO_SOFT_KERNEL(name, Protocol, ...) \
  {#name, soft_cuda::run_emulated<Protocol, __VA_ARGS__>, sizeof(rondo::device::DeviceOperations)},
#define RONDO_SOFT_DIRECT(name, ...) \
  {#name, soft_cuda::run_direct_emulated<__VA_ARGS__>, sizeof(rondo::device::DirectOperation)},
#define RONDO_SOFT_REDUCE(name, ...) \
  {#name, soft_cuda::reduce_emulated<__VA_ARGS__>, sizeof(rondo::device::ReductionOperation)},
constexpr soft_cuda::KernelEntry entries[] = {RONDO_KERNELS(RONDO_SOFT_KERNEL) RONDO_DIRECT_KERNELS(RONDO_SOFT_DIRECT)
                                                  RONDO_REDUCE_KERNELS(RONDO_SOFT_REDUCE){nullptr, nullptr, 0}};

}  // namespace

extern "C" __attribute__((visibility("default"))) const soft_cuda::KernelEntry *soft_cuda_kernels() { return entries; }
