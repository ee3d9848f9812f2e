// SPDX-License-Identifier: Apache-2.0
// This file declares functions of libsoftcuda.so besides the CUDA driver's interface. They count launches, and, for
// tests of leaks, live objects. A test finds them by dlsym(handle, "soft_cuda_live"); a real driver has none.
// tests/soft_cuda/README.md describes the rest.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <string>

#include "cuda/driver/driver_api.h"
#include "tests/soft_cuda/access_counts.h"

/// The live objects of this process.
struct SoftCudaLive {
  uint64_t contexts = 0;
  uint64_t streams = 0;  ///< without the legacy default stream of each context
  uint64_t events = 0;
  uint64_t device_allocations = 0;
  uint64_t host_allocations = 0;
  uint64_t host_registrations = 0;
  uint64_t memory_handles = 0;  ///< references to memory of cuMemCreate and of imports
  uint64_t reservations = 0;
  uint64_t mappings = 0;
  uint64_t ipc_imports = 0;
  uint64_t libraries = 0;
  uint64_t graphs = 0;
  uint64_t graph_execs = 0;

  bool operator==(const SoftCudaLive &) const = default;
};

extern "C" void soft_cuda_live(SoftCudaLive *live);

/// Returns how many kernels this process has launched or captured so far.
extern "C" uint64_t soft_cuda_launch_count();
/// Returns how many of these kernels are in the remote memory-sync domain.
extern "C" uint64_t soft_cuda_remote_launch_count();
/// Returns how many copies from the host to a device were called or captured.
extern "C" uint64_t soft_cuda_upload_count();
/// Returns how many of these copies are on `stream`. Returns UINT64_MAX if the stream does not exist.
extern "C" uint64_t soft_cuda_upload_count_of(rondo::cuda::CuStream stream);
/// Returns the largest number of threads in a block that a launch has requested.
extern "C" uint64_t soft_cuda_block_threads();
/// Returns how often data that network cards wrote was flushed.
extern "C" uint64_t soft_cuda_flush_count();
/// Returns how many nodes of graphs this process has captured so far, including kernels.
extern "C" uint64_t soft_cuda_captured_count();

/// Returns how many calls of the driver the calling thread has made. @param queries receives how many of these calls
/// neither made nor enqueued anything
extern "C" uint64_t soft_cuda_call_count(uint64_t *queries);

/// Returns how many launches of this process wait for a block's place on that device.
extern "C" uint64_t soft_cuda_waiting_launches(uint32_t device);

/// Returns how many running blocks of this process on that device have waited at least once. They wait for other
/// blocks, for kernels or for the host.
extern "C" uint64_t soft_cuda_waiting_blocks(uint32_t device);

/// Returns how often threads of blocks of this process on that device have polled in vain so far.
extern "C" uint64_t soft_cuda_poll_count(uint32_t device);

/// If `lost` is not 0, stops this process's kernels on that device where they wait for others, as if the device were
/// lost. 0 lets them continue.
extern "C" void soft_cuda_lose_device(uint32_t device, uint32_t lost);

/// Starts to count the kernels' memory accesses from zero. If `on` is 0, stops the count. No kernel may be running.
extern "C" void soft_cuda_count_accesses(uint32_t on);
/// Stores the counts of each rank whose kernels have run since the count started, in any order. Returns their number.
extern "C" uint32_t soft_cuda_access_counts(soft_cuda::AccessCounts *counts, uint32_t room);

/// Returns how many bytes kernels have moved between two devices since the count started, by loads from one or stores
/// to the other. For a device and itself, the bytes read and written in its memory. Only the first 8 devices count.
extern "C" uint64_t soft_cuda_moved_bytes(uint32_t from, uint32_t to);

/// Returns one of the functions above from a loaded library. Returns null if the library is a real driver.
template <class Function>
[[nodiscard]] Function *soft_cuda_function(const std::string &library, const char *name) {
  return reinterpret_cast<Function *>(::dlsym(::dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD), name));
}
