// SPDX-License-Identifier: Apache-2.0
// This library is a small CUDA runtime over the driver that RONDO_CUDA_LIBRARY names. So programs for the runtime and
// nccl.h can run on the driver in software. Kernels are host functions (runtime_kernels.h), which run in the order of
// their stream. The runtime has the driver's error codes.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "tests/compat/runtime_kernels.h"

namespace {

using soft_runtime::PrepareLaunch;

thread_local cudaError_t last_error = cudaSuccess;
thread_local int current_device = 0;

struct Runtime {
  std::mutex mutex;
  std::map<const void *, PrepareLaunch> kernels;
  std::map<int, void *> contexts;
};
Runtime &runtime() {
  static auto *const only = new Runtime;  // Threads of the program may use it until the process ends.
  return *only;
}

void *find(const char *name) {
  static void *const library = [] {
    const char *path = std::getenv("RONDO_CUDA_LIBRARY");
    return path == nullptr ? nullptr : ::dlopen(path, RTLD_NOW);
  }();
  void *symbol = library == nullptr ? nullptr : ::dlsym(library, name);
  if (symbol == nullptr) {
    std::fprintf(stderr, "the CUDA runtime for tests lacks %s: RONDO_CUDA_LIBRARY must name the driver in software\n",
                 name);
    std::abort();
  }
  return symbol;
}

cudaError_t note(int status) {
  if (status != cudaSuccess) last_error = static_cast<cudaError_t>(status);
  return static_cast<cudaError_t>(status);
}

/// Calls a function of the driver.
template <class... Arguments>
int plain(const char *name, Arguments... arguments) {
  return reinterpret_cast<int (*)(Arguments...)>(find(name))(arguments...);
}

/// Makes the primary context of the current device current on this thread, if the thread has no current context.
int enter() {
  static const int initialized = plain("cuInit", 0U);
  void *current = nullptr;
  if (initialized != 0) return initialized;
  if (const int status = plain("cuCtxGetCurrent", &current); status != 0 || current != nullptr) return status;
  Runtime &all = runtime();
  const std::lock_guard lock(all.mutex);
  void *&context = all.contexts[current_device];
  if (context == nullptr)
    if (const int status = plain("cuDevicePrimaryCtxRetain", &context, current_device); status != 0) return status;
  return plain("cuCtxPushCurrent_v2", context);
}

/// Calls a function of the driver in the current device's context.
template <class... Arguments>
cudaError_t call(const char *name, Arguments... arguments) {
  if (const int status = enter(); status != 0) return note(status);
  return note(plain(name, arguments...));
}

uint64_t address(const void *pointer) { return reinterpret_cast<uint64_t>(pointer); }

struct Launch {
  std::function<void()> run;
};

void run_launch(void *data) {
  const std::unique_ptr<Launch> launch(static_cast<Launch *>(data));
  launch->run();
}

}  // namespace

void soft_runtime::add_kernel(const void *function, PrepareLaunch prepare) {
  const std::lock_guard lock(runtime().mutex);
  runtime().kernels[function] = std::move(prepare);
}

extern "C" {

// Code that nvcc compiled for the host calls these functions. The program's kernels for the GPU never run.
void **__cudaRegisterFatBinary(void * /*binary*/) {
  static void *handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void ** /*handle*/) {}
void __cudaUnregisterFatBinary(void ** /*handle*/) {}
void __cudaRegisterFunction(void **, const char *, char *, const char *, int, uint3 *, uint3 *, dim3 *, dim3 *, int *) {
}
void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int) {}
char __cudaInitModule(void ** /*handle*/) { return 0; }
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, cudaStream_t) { return 0; }
cudaError_t __cudaPopCallConfiguration(dim3 *, dim3 *, size_t *, void *) { return note(cudaErrorInvalidConfiguration); }

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void *>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                               cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
}

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }
const char *cudaGetErrorString(cudaError_t error) {
  const char *text = "unrecognized error code";
  plain("cuGetErrorString", static_cast<int>(error), &text);
  return text;
}
const char *cudaGetErrorName(cudaError_t error) {
  const char *text = "unrecognized error code";
  plain("cuGetErrorName", static_cast<int>(error), &text);
  return text;
}
cudaError_t cudaDriverGetVersion(int *version) { return note(plain("cuDriverGetVersion", version)); }
cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count) { return call("cuDeviceGetCount", count); }
cudaError_t cudaGetDevice(int *device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess) return status;
  if (device < 0 || device >= count) return note(cudaErrorInvalidDevice);
  void *left = nullptr;
  if (const cudaError_t status = call("cuCtxPopCurrent_v2", &left); status != cudaSuccess) return status;
  current_device = device;
  return note(enter());
}
cudaError_t cudaDeviceSynchronize() { return call("cuCtxSynchronize"); }
cudaError_t cudaDeviceReset() { return cudaDeviceSynchronize(); }
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
  return call("cuDeviceGetAttribute", value, static_cast<int>(attribute), device);
}
cudaError_t cudaDeviceGetPCIBusId(char *text, int bytes, int device) {
  return call("cuDeviceGetPCIBusId", text, bytes, device);
}
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
  return call("cuDeviceCanAccessPeer", can, device, peer);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device) {
  *properties = {};
  const auto attribute = [&](int *value, cudaDeviceAttr which) { cudaDeviceGetAttribute(value, which, device); };
  attribute(&properties->major, cudaDevAttrComputeCapabilityMajor);
  attribute(&properties->minor, cudaDevAttrComputeCapabilityMinor);
  attribute(&properties->multiProcessorCount, cudaDevAttrMultiProcessorCount);
  attribute(&properties->pciDomainID, cudaDevAttrPciDomainId);
  attribute(&properties->pciBusID, cudaDevAttrPciBusId);
  attribute(&properties->pciDeviceID, cudaDevAttrPciDeviceId);
  if (const auto status = call("cuDeviceTotalMem_v2", &properties->totalGlobalMem, device); status != cudaSuccess)
    return status;
  return call("cuDeviceGetName", properties->name, static_cast<int>(sizeof properties->name), device);
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *all) { return call("cuMemGetInfo_v2", left, all); }
cudaError_t cudaMalloc(void **pointer, size_t bytes) {
  *pointer = nullptr;
  return bytes == 0 ? cudaSuccess : call("cuMemAlloc_v2", pointer, bytes);
}
cudaError_t cudaFree(void *pointer) {
  return pointer == nullptr ? note(enter()) : call("cuMemFree_v2", address(pointer));
}
cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned flags) {
  return call("cuMemHostAlloc", pointer, bytes, flags);
}
cudaError_t cudaMallocHost(void **pointer, size_t bytes) { return cudaHostAlloc(pointer, bytes, cudaHostAllocDefault); }
cudaError_t cudaFreeHost(void *pointer) { return pointer == nullptr ? cudaSuccess : call("cuMemFreeHost", pointer); }

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes == 0) return note(enter());
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return call("cuMemcpyHtoDAsync_v2", address(to), from, bytes, stream);
    case cudaMemcpyDeviceToHost:
      return call("cuMemcpyDtoHAsync_v2", to, address(from), bytes, stream);
    default:
      return call("cuMemcpyAsync", address(to), address(from), bytes, stream);
  }
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t status = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return status == cudaSuccess ? cudaStreamSynchronize(nullptr) : status;
}
cudaError_t cudaMemsetAsync(void *pointer, int value, size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return note(enter());
  return call("cuMemsetD8Async", address(pointer), static_cast<unsigned char>(value), bytes, stream);
}
cudaError_t cudaMemset(void *pointer, int value, size_t bytes) {
  return cudaMemsetAsync(pointer, value, bytes, nullptr);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
  return call("cuStreamCreateWithPriority", stream, flags, priority);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t *stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return call("cuStreamDestroy_v2", stream); }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return call("cuStreamSynchronize", stream); }
cudaError_t cudaStreamQuery(cudaStream_t stream) { return call("cuStreamQuery", stream); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return call("cuStreamWaitEvent", stream, event, flags);
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data) {
  return call("cuLaunchHostFunc", stream, function, data);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) { return call("cuEventCreate", event, flags); }
cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return call("cuEventDestroy_v2", event); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return call("cuEventRecord", event, stream); }
cudaError_t cudaEventQuery(cudaEvent_t event) { return call("cuEventQuery", event); }
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return call("cuEventSynchronize", event); }
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  return call("cuEventElapsedTime", milliseconds, begin, end);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return call("cuStreamBeginCapture_v2", stream, static_cast<int>(mode));
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  return call("cuStreamEndCapture", stream, graph);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags) {
  return call("cuGraphInstantiateWithFlags", exec, graph, flags);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) { return call("cuGraphLaunch", exec, stream); }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { return call("cuGraphExecDestroy", exec); }
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return call("cuGraphDestroy", graph); }

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t /*shared_bytes*/,
                             cudaStream_t stream) {
  PrepareLaunch prepare;
  {
    const std::lock_guard lock(runtime().mutex);
    const auto found = runtime().kernels.find(function);
    if (found == runtime().kernels.end()) return note(cudaErrorInvalidDeviceFunction);
    prepare = found->second;
  }
  auto launch = std::make_unique<Launch>();
  launch->run = prepare(grid, block, arguments);
  const cudaError_t status = cudaLaunchHostFunc(stream, run_launch, launch.get());
  if (status == cudaSuccess) launch.release();
  return status;
}

}  // extern "C"
