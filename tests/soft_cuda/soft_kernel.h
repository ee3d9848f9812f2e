// SPDX-License-Identifier: Apache-2.0
// The interface between the CUDA driver in software and the kernels built for it. The driver runs a launch's block by
// `thread_count` host threads or fibers; each calls the kernel's function once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace soft_cuda {

/// A piece of memory, or of what lies between two.
struct MemoryExtent {
  static constexpr int none = -2, host = -1;
  uintptr_t begin = 0;
  uintptr_t end = 0;
  int place = none;  ///< none, host, or a device's number
  uint64_t reached_by = UINT64_MAX;  ///< a bit for each device, by its number, whose kernels may touch it
};

/// The reason why a thread of a block waits.
enum class Waiting : uint8_t {
  at_barrier,  ///< for the other threads of its block
  for_others,  ///< for other blocks, kernels or the host
};

/// One block in flight: shared by its threads.
struct Block {
  uint32_t grid_size = 1;     ///< blocks of the launch
  uint32_t index = 0;         ///< of this block in the grid
  uint32_t thread_count = 1;  ///< host threads or fibers that stand for the block's threads
  std::byte *shared = nullptr;  ///< shared memory of the block, zeroed before it starts
  uint64_t shared_bytes = 0;
  void (*give_way)(Waiting) = nullptr;  ///< called by a thread that waits, between two looks
  int device = 0;                  ///< that it runs on
  void (*find_memory)(uintptr_t address, MemoryExtent &extent) = nullptr;  ///< null: all memory is shared memory
};

/// `parameters` as given to cuLaunchKernel: one pointer for each of the kernel's parameters.
using KernelFunction = void (*)(Block &block, uint32_t thread, void *const *parameters);

struct KernelEntry {
  const char *name;  ///< as in the image
  KernelFunction function;
  uint32_t parameter_bytes;  ///< of the one struct that every kernel of ours takes by value
};

}  // namespace soft_cuda

/// The kernels of a library of kernels for the software driver, which dlopen()s it: an array that ends with a null
/// name.
extern "C" const soft_cuda::KernelEntry *soft_cuda_kernels();
