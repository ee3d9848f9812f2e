// SPDX-License-Identifier: Apache-2.0
// This file defines the kernels for devices. Each kernel only calls its body, which is in a header of this folder
// (list.h, mean.h, scale.h, transfer.h). The thread groups that run the bodies are here, too.
#include "cuda/kernels/list.h"
#include "cuda/kernels/mean.h"
#include "cuda/kernels/scale.h"
#include "cuda/kernels/transfer.h"

namespace rondo::device {
namespace {

/// Consecutive whole warps of a block, with a hardware barrier of their own. Lanes of a channel wait for different
/// peers, so they must not wait for each other. Barrier 0 belongs to __syncthreads.
struct WarpsGroup {
  uint32_t thread;
  uint32_t thread_count;
  uint32_t barrier;

  [[nodiscard]] __device__ uint32_t rank() const { return thread; }
  [[nodiscard]] __device__ uint32_t size() const { return thread_count; }
  __device__ void sync() const { asm volatile("barrier.sync %0, %1;" : : "r"(barrier), "r"(thread_count) : "memory"); }
  [[nodiscard]] __device__ bool any(bool vote) const {
    uint32_t any_vote;
    asm volatile(
        "{\n"
        "  .reg .pred mine, anyone;\n"
        "  setp.ne.u32 mine, %1, 0;\n"
        "  barrier.red.or.pred anyone, %2, %3, mine;\n"
        "  selp.u32 %0, 1, 0, anyone;\n"
        "}"
        : "=r"(any_vote)
        : "r"(static_cast<uint32_t>(vote)), "r"(barrier), "r"(thread_count)
        : "memory");
    return any_vote != 0;
  }
  __device__ void relax() const {}
  /// Pauses between two polls of a long wait, because each poll takes bandwidth of a link or of the multiprocessor.
  __device__ void pause() const { asm volatile("nanosleep.u32 200;" : : : "memory"); }
};

/// float16 with the device's own conversions, one instruction each. Like Float16Format they round to nearest even, keep
/// subnormals and overflow to infinity. bfloat16 takes a few instructions either way. The device's conversions of
/// float8 are not used, because they saturate.
struct DeviceFloat16Element {
  using Storage = uint16_t;
  using Accumulator = float;
  [[nodiscard]] __device__ static float load(Storage bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
  [[nodiscard]] __device__ static Storage store(float value) {
    Storage bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
  }
};

/// All threads of a grid, for bodies that need no barrier.
struct GridGroup {
  [[nodiscard]] __device__ uint32_t rank() const { return blockIdx.x * blockDim.x + threadIdx.x; }
  [[nodiscard]] __device__ uint32_t size() const { return gridDim.x * blockDim.x; }
  __device__ void sync() const {}
  [[nodiscard]] __device__ bool any(bool vote) const { return vote; }
};

template <class Reducer>
struct OnDevice {
  using Type = Reducer;
};
template <template <class...> class Reducer, class... Op>
struct OnDevice<Reducer<Float16Element, Op...>> {
  using Type = Reducer<DeviceFloat16Element, Op...>;
};

constexpr uint32_t warp_threads = 32;
/// The launch bounds of kernels have this size, and require only one such block on a multiprocessor. For more blocks,
/// ptxas would save registers, and spill.
constexpr uint32_t block_threads_max = 512;

/// Copies the block's operation to shared memory, where its fields have fixed addresses. Reading them from the
/// parameters would need registers to select the rank. All threads of the block call it.
__device__ const DeviceOperation &own_operation(const DeviceOperations &operations) {
  __shared__ __align__(16) std::byte own[sizeof(DeviceOperation)];
  const auto *const from = reinterpret_cast<const uint64_t *>(&operations.of_block(blockIdx.x));
  auto *const to = reinterpret_cast<uint64_t *>(own);
  for (uint32_t word = threadIdx.x; word < sizeof own / sizeof *to; word += blockDim.x) to[word] = from[word];
  __syncthreads();
  return *reinterpret_cast<const DeviceOperation *>(own);
}

/// Runs a block. Each lane of its channel is run by the same number of whole warps.
template <class Protocol, class ListedReducer>
__device__ void run_block(const DeviceOperations &operations) {
  using Reducer = typename OnDevice<ListedReducer>::Type;
  extern __shared__ __align__(16) std::byte shared[];
  const DeviceOperation &operation = own_operation(operations);
  const DeviceChannel &channel = operation.channels[operations.channel_of_block(blockIdx.x)];
  if (channel.lane_count == 0) return;
  const uint32_t size = blockDim.x / warp_threads / channel.lane_count * warp_threads;
  const uint32_t lane = threadIdx.x / size;
  if (lane >= channel.lane_count) return;
  const WarpsGroup group{threadIdx.x - lane * size, size, lane + 1};
  run_lanes<Protocol, 1>(group, operation, channel, lane, 1, make_reducer<Reducer>(operation, channel), shared);
}

}  // namespace
}  // namespace rondo::device

#define RONDO_KERNEL(name, Protocol, ...)                                             \
  extern "C" __global__ void __launch_bounds__(::rondo::device::block_threads_max, 1) \
      name(const __grid_constant__ ::rondo::device::DeviceOperations operations) {    \
    ::rondo::device::run_block<Protocol, __VA_ARGS__>(operations);                    \
  }
RONDO_KERNELS(RONDO_KERNEL)

#define RONDO_LOAD_STORE_KERNEL_BY(run, name, ...)                                                              \
  extern "C" __global__ void __launch_bounds__(::rondo::device::block_threads_max, 1)                           \
      name(const __grid_constant__ ::rondo::device::LoadStoreOperation operation) {                             \
    extern __shared__ __align__(16) std::byte shared[];                                                         \
    ::rondo::device::run<typename ::rondo::device::OnDevice<__VA_ARGS__>::Type>(                                \
        ::rondo::device::WarpsGroup{threadIdx.x, blockDim.x, 1}, operation, blockIdx.x, shared);                \
  }
#define RONDO_LOAD_STORE_KERNEL(name, ...) RONDO_LOAD_STORE_KERNEL_BY(run_load_store, name, __VA_ARGS__)
#define RONDO_ONE_SHOT_KERNEL(name, ...) RONDO_LOAD_STORE_KERNEL_BY(run_one_shot, name, __VA_ARGS__)
RONDO_LOAD_STORE_KERNELS(RONDO_LOAD_STORE_KERNEL)
RONDO_ONE_SHOT_KERNELS(RONDO_ONE_SHOT_KERNEL)

extern "C" __global__ void __launch_bounds__(::rondo::device::block_threads_max, 1)
    rondo_run_transfer_copy(const __grid_constant__ ::rondo::device::TransferOperation operation) {
  extern __shared__ __align__(16) std::byte shared[];
  ::rondo::device::run_transfers(::rondo::device::WarpsGroup{threadIdx.x, blockDim.x, 1}, operation, blockIdx.x,
                                 shared);
}

#define RONDO_JOINT_KERNEL(name, ...)                                                                         \
  extern "C" __global__ void __launch_bounds__(::rondo::device::block_threads_max, 1)                         \
      name(const __grid_constant__ ::rondo::device::JointOperation operation) {                               \
    extern __shared__ __align__(16) std::byte shared[];                                                       \
    ::rondo::device::run_joint<typename ::rondo::device::OnDevice<__VA_ARGS__>::Type>(                        \
        ::rondo::device::WarpsGroup{threadIdx.x, blockDim.x, 1}, operation, blockIdx.x, shared);              \
  }
RONDO_JOINT_KERNELS(RONDO_JOINT_KERNEL)

#define RONDO_REDUCE_KERNEL(name, ...)                                                                           \
  extern "C" __global__ void __launch_bounds__(::rondo::device::block_threads_max, 1)                             \
      name(const __grid_constant__ ::rondo::device::ReductionOperation operation) {                                 \
    ::rondo::device::reduce<typename ::rondo::device::OnDevice<__VA_ARGS__>::Type>(::rondo::device::GridGroup{}, \
                                                                                    operation);                   \
  }
RONDO_REDUCE_KERNELS(RONDO_REDUCE_KERNEL)

#define RONDO_MEAN_KERNEL(name, Direction)                                            \
  extern "C" __global__ void __launch_bounds__(::rondo::device::block_threads_max, 1) \
      name(const __grid_constant__ ::rondo::device::MeanOperation operation) {        \
    ::rondo::device::run_mean<Direction>(::rondo::device::GridGroup{}, operation);    \
  }
RONDO_MEAN_KERNELS(RONDO_MEAN_KERNEL)

extern "C" __global__ void __launch_bounds__(::rondo::device::block_threads_max, 1)
    rondo_scale(const __grid_constant__ ::rondo::device::ScaleOperation operation) {
  ::rondo::device::run_scale<::rondo::device::DeviceFloat16Element>(::rondo::device::GridGroup{}, operation);
}
