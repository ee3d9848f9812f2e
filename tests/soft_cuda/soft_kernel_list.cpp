// SPDX-License-Identifier: Apache-2.0
// This library has all kernels for emulated blocks, of all families for which soft_kernels.cpp is compiled.
#include <vector>

#include "tests/soft_cuda/soft_kernel.h"

using soft_cuda::KernelEntry;

const KernelEntry *soft_kernels_of_simple();
const KernelEntry *soft_kernels_of_ll();
const KernelEntry *soft_kernels_of_load_store();
const KernelEntry *soft_kernels_of_one_shot();
const KernelEntry *soft_kernels_of_joint();
const KernelEntry *soft_kernels_of_reduce();
const KernelEntry *soft_kernels_of_mean();
const KernelEntry *soft_kernels_of_transfers();

extern "C" __attribute__((visibility("default"))) const KernelEntry *soft_cuda_kernels() {
  static const std::vector<KernelEntry> *const all = [] {
    auto *const joined = new std::vector<KernelEntry>;  // kernels may run until the process is gone
    for (const KernelEntry *entry : {soft_kernels_of_simple(), soft_kernels_of_ll(), soft_kernels_of_load_store(),
                                     soft_kernels_of_one_shot(), soft_kernels_of_joint(), soft_kernels_of_reduce(),
                                     soft_kernels_of_mean(), soft_kernels_of_transfers()})
      for (; entry->name != nullptr; ++entry) joined->push_back(*entry);
    joined->push_back({nullptr, nullptr, 0});
    return joined;
  }();
  return all->data();
}
