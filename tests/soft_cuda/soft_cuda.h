// SPDX-License-Identifier: Apache-2.0
// The functions of libsoftcuda.so beside the CUDA driver's interface. They count what is alive, for tests of leaks, and
// launches. A test finds them by dlsym(handle, "soft_cuda_live"); a real driver has none. docs/gpu-tests.md has the
// rest.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <string>

#include "cuda/driver/driver_api.h"
#include "src/proto/access_counts.h"

/// The objects of this process that are alive.
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

/// Returns the kernels that this process has launched or captured so far.
extern "C" uint64_t soft_cuda_launch_count();
/// Returns how many of them are in the remote memory-sync domain.
extern "C" uint64_t soft_cuda_remote_launch_count();
/// Returns the copies from the host to a device, called or captured.
extern "C" uint64_t soft_cuda_upload_count();
/// Returns how many of them are on `stream`, or UINT64_MAX if it was not made or is destroyed.
extern "C" uint64_t soft_cuda_upload_count_of(rondo::cuda::CuStream stream);
/// Returns the most threads of a block that one of the launches has asked for.
extern "C" uint64_t soft_cuda_block_threads();
/// Returns the flushes of what network cards wrote.
extern "C" uint64_t soft_cuda_flush_count();
/// Returns the nodes of graphs that this process has captured so far, kernels among them.
extern "C" uint64_t soft_cuda_captured_count();

/// Returns the launches of this process that wait for a place for a block of theirs on that device.
extern "C" uint64_t soft_cuda_waiting_launches(uint32_t device);

/// Returns the blocks of this process that run on that device and have waited at least once for other blocks, kernels
/// or the host.
extern "C" uint64_t soft_cuda_waiting_blocks(uint32_t device);

/// Stops this process's kernels of that device where they wait for others, as if lost with it. 0 lets them go on.
extern "C" void soft_cuda_lose_device(uint32_t device, uint32_t lost);

/// Counts what kernels do to memory from now on, from nothing; 0 stops it. No kernel may run.
extern "C" void soft_cuda_count_accesses(uint32_t on);
/// Returns the counts of each rank whose kernels ran since, in any order, and how many there are.
extern "C" uint32_t soft_cuda_access_counts(rondo::AccessCounts *counts, uint32_t room);

/// Returns the bytes that kernels have moved since from one device to another, by loads of the one or stores of the
/// other. For a device and itself, it returns what all kernels have read and written in its memory. It counts the first
/// 8 devices.
extern "C" uint64_t soft_cuda_moved_bytes(uint32_t from, uint32_t to);

/// Returns one of the functions above from a library that is loaded, or null if that is a real driver.
template <class Function>
[[nodiscard]] Function *soft_cuda_function(const std::string &library, const char *name) {
  return reinterpret_cast<Function *>(::dlsym(::dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD), name));
}
