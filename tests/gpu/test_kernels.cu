// SPDX-License-Identifier: Apache-2.0
// The kernels of tests/soft_cuda/test_kernels.cpp on a device, for the conformance test on a real driver.
#include <cuda/atomic>

#include "tests/soft_cuda/test_kernels.h"

using namespace soft_cuda;

namespace {

using Word = cuda::atomic_ref<uint64_t, cuda::thread_scope_system>;

}  // namespace

/// Each thread of the grid writes its share.
extern "C" __global__ void test_fill(const FillParameters given) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < given.count; i += stride)
    given.to[i] = given.value + i;
}

/// One thread waits until the word is `value` or more.
extern "C" __global__ void test_await(const AwaitParameters given) {
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  // acquire; pairs with the release of the driver's write value, or of a test
  while (Word(*given.word).load(cuda::std::memory_order_acquire) < given.value) continue;
}

/// Every block waits for all others of the grid: they must be resident together.
extern "C" __global__ void test_meet(const MeetParameters given) {
  if (threadIdx.x != 0) return;
  const Word arrived(*given.arrived);
  arrived.fetch_add(1, cuda::std::memory_order_acq_rel);  // pairs with the loads below, in the other blocks
  while (arrived.load(cuda::std::memory_order_acquire) < gridDim.x + given.more) continue;
}

/// All threads of a block are there: each adds itself to the block's count.
extern "C" __global__ void test_count_threads(const CountParameters given) {
  __shared__ unsigned count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, 1u);
  __syncthreads();
  if (threadIdx.x == 0) given.counts[blockIdx.x] = count;
}
