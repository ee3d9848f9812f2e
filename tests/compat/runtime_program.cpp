// SPDX-License-Identifier: Apache-2.0
// This is a program as users write them for the CUDA runtime and nccl.h. It runs on the CUDA runtime for tests
// (runtime.cpp). One thread drives a rank on each device.
#include <cuda_runtime.h>
#include <nccl.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/compat/runtime_kernels.h"

namespace {

constexpr int count = 1000, blocks = 3, threads = 64, replays = 3;

[[noreturn]] void fail(int line, const char *what) {
  std::printf("%s:%d: %s\n", __FILE__, line, what);
  std::exit(1);
}

#define CUDA(call) \
  if (const cudaError_t status = (call); status != cudaSuccess) fail(__LINE__, cudaGetErrorString(status))
#define NCCL(call) \
  if (const ncclResult_t status = (call); status != ncclSuccess) fail(__LINE__, ncclGetLastError(nullptr))
#define CHECK(condition) \
  if (!(condition)) fail(__LINE__, #condition)

__global__ void add(float *elements, int elements_count, float value) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < static_cast<unsigned>(elements_count);
       i += gridDim.x * blockDim.x)
    elements[i] += value;
}

__global__ void never_added() {}

struct Rank {
  int device = 0;
  float *elements = nullptr;
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ncclComm_t comm = nullptr;
};

/// Makes the kernel add a value to each element, in the order of the rank's stream.
void launch_add(const Rank &rank, float value) {
  static const void *const kernel = soft_kernel(&add);
  float *elements = rank.elements;
  int elements_count = count;
  void *arguments[] = {&elements, &elements_count, &value};
  CUDA(cudaLaunchKernel(kernel, dim3(blocks), dim3(threads), arguments, 0, rank.stream));
  value = -1;  // The launch has its own copy.
}

void expect(const std::vector<Rank> &ranks, float value) {
  for (const Rank &rank : ranks) {
    CUDA(cudaSetDevice(rank.device));
    CUDA(cudaStreamSynchronize(rank.stream));
    std::vector<float> found(count);
    CUDA(cudaMemcpy(found.data(), rank.elements, count * sizeof(float), cudaMemcpyDeviceToHost));
    for (const float element : found) CHECK(element == value);
  }
}

/// Sums the elements of all ranks in place.
void all_reduce(const std::vector<Rank> &ranks) {
  NCCL(ncclGroupStart());
  for (const Rank &rank : ranks)
    NCCL(ncclAllReduce(rank.elements, rank.elements, count, ncclFloat, ncclSum, rank.comm, rank.stream));
  NCCL(ncclGroupEnd());
}

void check_errors() {
  CHECK(cudaLaunchKernel(reinterpret_cast<const void *>(&never_added), dim3(1), dim3(1), nullptr, 0, nullptr) ==
        cudaErrorInvalidDeviceFunction);
  CHECK(cudaGetLastError() == cudaErrorInvalidDeviceFunction && cudaGetLastError() == cudaSuccess);
  CHECK(cudaSetDevice(99) == cudaErrorInvalidDevice);
}

}  // namespace

int main() {
  int device_count = 0;
  CUDA(cudaGetDeviceCount(&device_count));
  CHECK(device_count > 1);
  const auto rank_count = static_cast<float>(device_count);
  std::vector<Rank> ranks(static_cast<size_t>(device_count));
  std::vector<ncclComm_t> comms(ranks.size());
  NCCL(ncclCommInitAll(comms.data(), device_count, nullptr));
  for (size_t i = 0; i < ranks.size(); ++i) {
    Rank &rank = ranks[i];
    rank.device = static_cast<int>(i);
    rank.comm = comms[i];
    CUDA(cudaSetDevice(rank.device));
    CUDA(cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking));
    CUDA(cudaMalloc(reinterpret_cast<void **>(&rank.elements), count * sizeof(float)));
    CUDA(cudaMemsetAsync(rank.elements, 0, count * sizeof(float), rank.stream));
    launch_add(rank, 2);
  }
  all_reduce(ranks);
  for (const Rank &rank : ranks) CUDA(cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeThreadLocal));
  all_reduce(ranks);
  for (Rank &rank : ranks) {
    CUDA(cudaStreamEndCapture(rank.stream, &rank.graph));
    CUDA(cudaGraphInstantiate(&rank.exec, rank.graph, 0));
  }
  float value = 2 * rank_count;
  expect(ranks, value);
  for (int replay = 0; replay < replays; ++replay) {
    for (const Rank &rank : ranks) {
      launch_add(rank, 1);
      CUDA(cudaGraphLaunch(rank.exec, rank.stream));
    }
    value = (value + 1) * rank_count;
  }
  expect(ranks, value);
  check_errors();
  for (const Rank &rank : ranks) {
    CUDA(cudaGraphExecDestroy(rank.exec));
    CUDA(cudaGraphDestroy(rank.graph));
    NCCL(ncclCommDestroy(rank.comm));
    CUDA(cudaSetDevice(rank.device));
    CUDA(cudaFree(rank.elements));
    CUDA(cudaStreamDestroy(rank.stream));
  }
  std::printf("%d ranks\n", device_count);
}
