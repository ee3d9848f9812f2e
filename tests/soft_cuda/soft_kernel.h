// SPDX-License-Identifier: Apache-2.0
// This file is the interface between the CUDA driver in software and the kernels built for it. The driver runs a block
// on `thread_count` host threads or fibers. Each thread or fiber calls the kernel's function once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace soft_cuda {

/// A piece of memory, or the gap between two pieces.
struct MemoryExtent {
  static constexpr int none = -2, host = -1;
  uintptr_t begin = 0;
  uintptr_t end = 0;
  int place = none;  ///< none, host, or a device's number
  uint64_t reached_by = UINT64_MAX;  ///< a bit for each device, by its number, whose kernels may touch it
};

/// The reason why a thread of a block waits.
enum class Waiting : uint8_t {
  at_barrier,  ///< the thread waits for the other threads of its block
  for_others,  ///< the thread waits for other blocks, kernels or the host
};

/// One block that is running. All threads of the block share this object.
struct Block {
  uint32_t grid_size = 1;     ///< number of blocks in the launch
  uint32_t index = 0;         ///< place of this block in the grid
  uint32_t thread_count = 1;  ///< host threads or fibers that represent the block's threads
  std::byte *shared = nullptr;  ///< shared memory of the block, zeroed before it starts
  uint64_t shared_bytes = 0;
  void (*give_way)(Waiting) = nullptr;  ///< called by a waiting thread between two polls
  int device = 0;                  ///< the device on which it runs
  void (*find_memory)(uintptr_t address, MemoryExtent &extent) = nullptr;  ///< null: all memory is shared memory
};

/// A kernel's function. `parameters` is as given to cuLaunchKernel: one pointer for each of the kernel's parameters.
using KernelFunction = void (*)(Block &block, uint32_t thread, void *const *parameters);

struct KernelEntry {
  const char *name;  ///< as in the image
  KernelFunction function;
  uint32_t parameter_bytes;  ///< size of the struct that every kernel takes by value
};

}  // namespace soft_cuda

/// The kernels of a library for the software driver, which opens it by dlopen(). The array ends with a null name.
extern "C" const soft_cuda::KernelEntry *soft_cuda_kernels();
