// SPDX-License-Identifier: Apache-2.0
// This file defines every entry under its name in libcuda.so. A definition with other parameters would not compile.
#pragma once

#include "cuda/driver/driver_entries.h"

extern "C" {
using namespace rondo::cuda;
#define SOFT_CUDA_DECLARE(field, name, symbol, version, parameters) \
  __attribute__((visibility("default"))) CuStatus symbol parameters;
RONDO_CUDA_ENTRIES(SOFT_CUDA_DECLARE)
#undef SOFT_CUDA_DECLARE
/// Allocates managed memory. Some programs call this function. Rondo does not, so the function is no entry.
__attribute__((visibility("default"))) CuStatus cuMemAllocManaged(DevicePointer *pointer, size_t bytes, unsigned flags);
__attribute__((visibility("default"))) CuStatus cuGetProcAddress_v2(const char *symbol, void **function, int version,
                                                                    unsigned long long flags,
                                                                    ProcAddressResult *result);
}
