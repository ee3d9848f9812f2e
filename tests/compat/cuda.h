// SPDX-License-Identifier: Apache-2.0
// This file uses the CUDA driver like a program for nccl.h: contexts, memory, streams, graphs. RONDO_CUDA_LIBRARY names
// the driver's library. Every failed call ends the program.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

struct CUstream_st;

namespace compat_test {

using Stream = CUstream_st *;
/// The calling thread's default stream of the current device, CU_STREAM_PER_THREAD.
inline const auto stream_of_thread = reinterpret_cast<Stream>(uintptr_t{2});
using Address = uint64_t;
using Context = void *;
using Graph = void *;
using GraphExec = void *;

[[noreturn]] inline void fail_test(const char *what, const char *file, int line, int status) {
  std::printf("%s:%d: %s: %d\n", file, line, what, status);
  std::fflush(stdout);
  std::_Exit(1);
}

class Cuda {
 public:
  Cuda() {
    if (init(0) != 0) fail_test("cuInit", __FILE__, __LINE__, 0);
  }
  int (*init)(unsigned) = find<int(unsigned)>("cuInit");
  int (*retain)(Context *, int) = find<int(Context *, int)>("cuDevicePrimaryCtxRetain");
  int (*release)(int) = find<int(int)>("cuDevicePrimaryCtxRelease_v2");
  int (*push)(Context) = find<int(Context)>("cuCtxPushCurrent_v2");
  int (*pop)(Context *) = find<int(Context *)>("cuCtxPopCurrent_v2");
  int (*alloc)(Address *, size_t) = find<int(Address *, size_t)>("cuMemAlloc_v2");
  int (*free)(Address) = find<int(Address)>("cuMemFree_v2");
  int (*managed_alloc)(Address *, size_t, unsigned) = find<int(Address *, size_t, unsigned)>("cuMemAllocManaged");
  int (*host_alloc)(void **, size_t, unsigned) = find<int(void **, size_t, unsigned)>("cuMemHostAlloc");
  int (*host_free)(void *) = find<int(void *)>("cuMemFreeHost");
  int (*host_register)(void *, size_t, unsigned) = find<int(void *, size_t, unsigned)>("cuMemHostRegister_v2");
  int (*host_unregister)(void *) = find<int(void *)>("cuMemHostUnregister");
  int (*to_device)(Address, const void *, size_t, Stream) =
      find<int(Address, const void *, size_t, Stream)>("cuMemcpyHtoDAsync_v2");
  int (*to_host)(void *, Address, size_t, Stream) = find<int(void *, Address, size_t, Stream)>("cuMemcpyDtoHAsync_v2");
  int (*stream_create)(Stream *, unsigned, int) = find<int(Stream *, unsigned, int)>("cuStreamCreateWithPriority");
  int (*stream_destroy)(Stream) = find<int(Stream)>("cuStreamDestroy_v2");
  int (*synchronize)(Stream) = find<int(Stream)>("cuStreamSynchronize");
  int (*query)(Stream) = find<int(Stream)>("cuStreamQuery");
  int (*launch_host)(Stream, void (*)(void *), void *) =
      find<int(Stream, void (*)(void *), void *)>("cuLaunchHostFunc");
  int (*begin_capture)(Stream, int) = find<int(Stream, int)>("cuStreamBeginCapture_v2");
  int (*end_capture)(Stream, Graph *) = find<int(Stream, Graph *)>("cuStreamEndCapture");
  int (*instantiate)(GraphExec *, Graph, unsigned long long) =
      find<int(GraphExec *, Graph, unsigned long long)>("cuGraphInstantiateWithFlags");
  int (*upload)(GraphExec, Stream) = find<int(GraphExec, Stream)>("cuGraphUpload");
  int (*launch)(GraphExec, Stream) = find<int(GraphExec, Stream)>("cuGraphLaunch");
  int (*exec_destroy)(GraphExec) = find<int(GraphExec)>("cuGraphExecDestroy");
  int (*graph_destroy)(Graph) = find<int(Graph)>("cuGraphDestroy");
  int (*event_create)(void **, unsigned) = find<int(void **, unsigned)>("cuEventCreate");
  int (*event_record)(void *, Stream) = find<int(void *, Stream)>("cuEventRecord");
  int (*wait_event)(Stream, void *, unsigned) = find<int(Stream, void *, unsigned)>("cuStreamWaitEvent");
  int (*event_synchronize)(void *) = find<int(void *)>("cuEventSynchronize");
  int (*event_destroy)(void *) = find<int(void *)>("cuEventDestroy_v2");

 private:
  template <class Function>
  static Function *find(const char *name) {
    const char *const library = std::getenv("RONDO_CUDA_LIBRARY");
    void *const handle = library == nullptr ? nullptr : ::dlopen(library, RTLD_NOW);
    void *const found = handle == nullptr ? nullptr : ::dlsym(handle, name);
    if (found == nullptr) fail_test(name, __FILE__, __LINE__, 0);
    return reinterpret_cast<Function *>(found);
  }
};

inline const Cuda &cuda() {
  static const Cuda table;
  return table;
}

#define CU(call)                                                                       \
  do {                                                                                 \
    const int cu_status = compat_test::cuda().call;                                    \
    if (cu_status != 0) compat_test::fail_test(#call, __FILE__, __LINE__, cu_status);  \
  } while (false)

/// Makes a device current for the calling thread, as cudaSetDevice() does, until this object is destroyed.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    Context context = nullptr;
    CU(retain(&context, device));
    CU(push(context));
  }
  OnDevice(const OnDevice &) = delete;
  OnDevice &operator=(const OnDevice &) = delete;
  ~OnDevice() {
    Context context = nullptr;
    CU(pop(&context));
  }
};

/// A stream and memory of one device.
class DevicePart {
 public:
  DevicePart(int device, size_t bytes) : device_(device), bytes_(bytes) {
    const OnDevice current(device);
    CU(stream_create(&stream_, 1, 0));
    CU(alloc(&address_, bytes));
  }
  DevicePart(const DevicePart &) = delete;
  DevicePart &operator=(const DevicePart &) = delete;
  ~DevicePart() {
    const OnDevice current(device_);
    CU(free(address_));
    CU(stream_destroy(stream_));
  }
  [[nodiscard]] Stream stream() const { return stream_; }
  [[nodiscard]] unsigned char *at(size_t offset) const { return reinterpret_cast<unsigned char *>(address_) + offset; }
  [[nodiscard]] size_t size() const { return bytes_; }
  void write(const std::vector<unsigned char> &from) const {
    const OnDevice current(device_);
    CU(to_device(address_, from.data(), from.size(), stream_));
    CU(synchronize(stream_));
  }
  [[nodiscard]] std::vector<unsigned char> read() const {
    const OnDevice current(device_);
    std::vector<unsigned char> bytes(bytes_);
    CU(to_host(bytes.data(), address_, bytes.size(), stream_));
    CU(synchronize(stream_));
    return bytes;
  }
  void wait() const {
    const OnDevice current(device_);
    CU(synchronize(stream_));
  }

 private:
  int device_;
  size_t bytes_;
  Stream stream_ = nullptr;
  Address address_ = 0;
};

}  // namespace compat_test
