// SPDX-License-Identifier: Apache-2.0
// This file has the kernels of test_kernels.cpp that the conformance test and device_costs launch on a device.
#include <cuda/atomic>
#include <nv/target>

#include "tests/soft_cuda/test_kernels.h"

using namespace soft_cuda;

namespace {

using Word = cuda::atomic_ref<uint64_t, cuda::thread_scope_system>;

/// Polls until the word is `wanted`. Returns false after pair_polls_max polls.
__device__ bool poll(uint64_t &word, uint64_t wanted, bool ordered) {
  for (uint64_t polls = 0; polls < pair_polls_max; ++polls)
    // acquire; pairs with the other block's release
    if (Word(word).load(ordered ? cuda::std::memory_order_acquire : cuda::std::memory_order_relaxed) == wanted)
      return true;
  return false;
}

__device__ void post(uint64_t &word, uint64_t value, bool ordered) {
  // release; pairs with poll() in the other block
  Word(word).store(value, ordered ? cuda::std::memory_order_release : cuda::std::memory_order_relaxed);
}

__device__ uint64_t now_ns() {
  uint64_t now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

/// If launches are programmatic, waits for the end of the previous kernel, and then lets the stream's next kernel
/// begin. In the other order, each kernel would let the next begin while it waits itself, until the device is full.
__device__ void overlap_launches() {
  NV_IF_TARGET(NV_PROVIDES_SM_90,
               (asm volatile("griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;" : : : "memory");))
}

/// Polls until the word has reached `number`. Returns false after meet_patience_ns, or if another kernel gave up.
__device__ bool comes_to(uint64_t &word, uint64_t number, uint64_t &gave_up) {
  uint64_t end = 0;
  for (uint64_t polls = 1; Word(word).load(cuda::std::memory_order_relaxed) < number; ++polls) {
    if (polls % meet_polls_per_look != 0) continue;
    if (end == 0) end = now_ns() + meet_patience_ns;
    if (Word(gave_up).load(cuda::std::memory_order_relaxed) != 0 || now_ns() > end) return false;
  }
  return true;
}

/// Meets as load_store's one_shot does, with a thread for each stream's word. Accesses are relaxed: only values count.
__device__ void meet_streams(const MeetParameters &given) {
  uint64_t &ended = given.words[given.stream * meet_stride + meet_ended];
  const uint64_t number = Word(ended).load(cuda::std::memory_order_relaxed) + 1;
  if (threadIdx.x == 0)
    Word(given.words[given.stream * meet_stride]).store(number, cuda::std::memory_order_relaxed);
  if (threadIdx.x < given.count && !comes_to(given.words[threadIdx.x * meet_stride], number, *given.gave_up))
    Word(*given.gave_up).store(1, cuda::std::memory_order_relaxed);
  __syncthreads();
  if (threadIdx.x == 0) Word(ended).store(number, cuda::std::memory_order_relaxed);
}

__device__ void add(float4 &sum, const float4 &more) {
  sum.x += more.x;
  sum.y += more.y;
  sum.z += more.z;
  sum.w += more.w;
}

__device__ const float4 *quads(const Quad *at) { return reinterpret_cast<const float4 *>(at); }
__device__ float4 *quads(Quad *at) { return reinterpret_cast<float4 *>(at); }

}  // namespace

/// Each thread of the grid writes its share.
extern "C" __global__ void test_fill(const FillParameters given) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < given.count; i += stride)
    given.to[i] = given.value + i;
}

/// Every block waits for all others of the grid: they must be resident together.
extern "C" __global__ void test_barrier(const BarrierParameters given) {
  if (threadIdx.x != 0) return;
  const Word arrived(*given.arrived);
  arrived.fetch_add(1, cuda::std::memory_order_acq_rel);  // pairs with the loads below, in the other blocks
  const uint64_t end = now_ns() + barrier_patience_ns;
  while (arrived.load(cuda::std::memory_order_acquire) < gridDim.x + given.more) {
    if (now_ns() <= end) continue;
    arrived.fetch_add(barrier_gave_up, cuda::std::memory_order_relaxed);  // relaxed: read when the kernel has ended
    return;
  }
}

/// Each thread adds itself to its block's count, so the count shows whether all threads run.
extern "C" __global__ void test_count_threads(const CountParameters given) {
  __shared__ unsigned count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, 1u);
  __syncthreads();
  if (threadIdx.x == 0) given.counts[blockIdx.x] = count;
}

extern "C" __global__ void cost_nothing(const NothingParameters) {}
extern "C" __global__ void cost_nothing_large(const LargeParameters) {}
extern "C" __global__ void cost_nothing_early(const NothingParameters) { overlap_launches(); }
extern "C" __global__ void cost_meet(const MeetParameters given) { meet_streams(given); }
extern "C" __global__ void cost_meet_early(const MeetParameters given) {
  overlap_launches();
  meet_streams(given);
}

extern "C" __global__ void cost_store(const StoreParameters given) {
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  using DeviceWord = cuda::atomic_ref<uint64_t, cuda::thread_scope_device>;
  for (uint64_t round = 1; round <= given.round_count; ++round) {
    if (given.pending != nullptr) Word(*given.pending).store(round, cuda::std::memory_order_relaxed);
    // No thread waits for these stores. With an order of release, the loop measures the time of a release.
    if (given.order == StoreOrder::relaxed) Word(*given.word).store(round, cuda::std::memory_order_relaxed);
    if (given.order == StoreOrder::release_device)
      DeviceWord(*given.word).store(round, cuda::std::memory_order_release);
    if (given.order == StoreOrder::release_system) Word(*given.word).store(round, cuda::std::memory_order_release);
  }
}

extern "C" __global__ void cost_read(const ReadParameters given) {
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  uint64_t at = 0;
  // relaxed at system scope, so each access goes to the memory itself
  for (uint64_t round = 0; round < given.round_count; ++round)
    at = Word(given.words[at]).load(cuda::std::memory_order_relaxed);
  *given.last = at;
}

extern "C" __global__ void cost_pair(const PairParameters given) {
  if (blockIdx.x > 1 || threadIdx.x != 0) return;
  uint64_t &own = given.words[blockIdx.x * pair_stride], &other = given.words[(1 - blockIdx.x) * pair_stride];
  const bool ordered = given.ordered != 0;
  for (uint64_t round = 1; round <= given.round_count; ++round) {
    if (blockIdx.x == 0) post(other, round, ordered);
    if (!poll(own, round, ordered)) return;
    if (blockIdx.x == 1) post(other, round, ordered);
  }
}

/// Four loads of a thread are in flight before the first store.
extern "C" __global__ void __launch_bounds__(512) cost_copy(const ReductionParameters given) {
  const float4 *const source = quads(given.sources[0]);
  float4 *const target = quads(given.targets[0]);
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i + 3 * stride < given.count; i += 4 * stride) {
    float4 loaded[4];
#pragma unroll
    for (uint32_t part = 0; part < 4; ++part) loaded[part] = source[i + part * stride];
#pragma unroll
    for (uint32_t part = 0; part < 4; ++part) target[i + part * stride] = loaded[part];
  }
  for (; i < given.count; i += stride) target[i] = source[i];
}

/// The loads of all operands come before the first addition.
extern "C" __global__ void __launch_bounds__(512) cost_reduce(const ReductionParameters given) {
  constexpr uint32_t ways = ReductionParameters::ways;
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < given.count; i += stride) {
    float4 loaded[ways];
#pragma unroll
    for (uint32_t way = 0; way < ways; ++way) loaded[way] = quads(given.sources[way])[i];
#pragma unroll
    for (uint32_t way = 1; way < ways; ++way) add(loaded[0], loaded[way]);
#pragma unroll
    for (uint32_t way = 0; way < ways; ++way) quads(given.targets[way])[i] = loaded[0];
  }
}
