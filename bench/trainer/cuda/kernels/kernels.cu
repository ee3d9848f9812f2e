// SPDX-License-Identifier: Apache-2.0
// This file defines the trainer's kernels for devices: one line for each kernel, and the block on which they run.
#define RONDO_TRAIN_FUNCTION __device__
#include "bench/trainer/cuda/kernels/list.h"

namespace {

struct DeviceBlock {
  [[nodiscard]] __device__ uint32_t thread() const { return threadIdx.x; }
  [[nodiscard]] __device__ uint32_t threads() const { return blockDim.x; }
  [[nodiscard]] __device__ uint32_t index() const { return blockIdx.x; }
  [[nodiscard]] __device__ uint32_t count() const { return gridDim.x; }
  [[nodiscard]] __device__ std::byte *shared() const {
    extern __shared__ __align__(16) std::byte memory[];
    return memory;
  }
  __device__ void sync() const { __syncthreads(); }
};

}  // namespace

#define RONDO_TRAIN_KERNEL(symbol, ...)                                                      \
  extern "C" __global__ void __launch_bounds__(::rondo::train::cuda::block_threads)          \
      symbol(const __grid_constant__ __VA_ARGS__ kernel) {                                   \
    kernel.run(DeviceBlock{});                                                               \
  }
RONDO_TRAIN_KERNELS(RONDO_TRAIN_KERNEL)
