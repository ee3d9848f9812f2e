// SPDX-License-Identifier: Apache-2.0
// What libsoftcuda.so offers beside the CUDA driver's interface: counts of what is alive, for tests of leaks, and of
// launches. Look it up with dlsym(handle, "soft_cuda_live"); a real driver has none. docs/gpu-tests.md tells the rest.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <string>

#include "cuda/driver/driver_api.h"
#include "src/proto/access_counts.h"

/// Of this process.
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

/// Kernels that this process has launched or captured so far.
extern "C" uint64_t soft_cuda_launch_count();
/// Of those, in the remote memory-sync domain.
extern "C" uint64_t soft_cuda_remote_launch_count();
/// Copies from the host to a device, called or captured.
extern "C" uint64_t soft_cuda_upload_count();
/// Of those, on a stream that was made and is not destroyed; UINT64_MAX: there is no such stream.
extern "C" uint64_t soft_cuda_upload_count_of(rondo::cuda::CuStream stream);
/// The most threads of a block that one of them has asked for.
extern "C" uint64_t soft_cuda_block_threads();
/// Flushes of what network cards wrote.
extern "C" uint64_t soft_cuda_flush_count();
/// Nodes of graphs that this process has captured so far, kernels among them.
extern "C" uint64_t soft_cuda_captured_count();

/// Launches of this process that wait for a place for a block of theirs on that device.
extern "C" uint64_t soft_cuda_waiting_launches(uint32_t device);

/// Blocks of this process that run on that device and have waited for other blocks, kernels or the host at least once.
extern "C" uint64_t soft_cuda_waiting_blocks(uint32_t device);

/// Kernels of that device, of this process, stop where they wait for others: it is lost with them; 0: they go on.
extern "C" void soft_cuda_lose_device(uint32_t device, uint32_t lost);

/// Counts what kernels do to memory from now on, from nothing; 0: stops. Where nothing runs.
extern "C" void soft_cuda_count_accesses(uint32_t on);
/// Of each rank whose kernels ran since, in any order; returns how many there are.
extern "C" uint32_t soft_cuda_access_counts(rondo::AccessCounts *counts, uint32_t room);

/// Likewise: bytes that kernels have moved over the link from one device to another, by loads of the one or stores of
/// the other; of a device and itself, what all kernels have read and written in its memory. Of the first 8 devices.
extern "C" uint64_t soft_cuda_moved_bytes(uint32_t from, uint32_t to);

/// One of the functions above from a library that is loaded; null: it is a real driver.
template <class Function>
[[nodiscard]] Function *soft_cuda_function(const std::string &library, const char *name) {
  return reinterpret_cast<Function *>(::dlsym(::dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD), name));
}
