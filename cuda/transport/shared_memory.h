// SPDX-License-Identifier: Apache-2.0
// This file declares device memory into which other ranks write. Threads of the owner's process on the same device use
// the owner's addresses. All other ranks open the memory in one of two ways:
//
//   ipc  cuMemAlloc, and a handle of CUDA IPC. Threads of the process on another device use the owner's addresses, once
//        the contexts have peer access. The owner must not free the memory while others use it.
//   vmm  Physical memory and its descriptor, which is passed over a unix socket. A rank opens the descriptor and maps
//        the memory for its own device. The memory stays until the last rank unmaps it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cuda/transport/info_exchange.h"
#include "cuda/driver/handles.h"
#include "src/base/config.h"

namespace rondo::cuda {

/// Physical memory that is mapped at addresses of this process.
struct VmmMapping {
  ReservedAddresses reserved;
  MappedAddresses mapped;  ///< destroyed before the addresses
};

/// The memory of a rank, held by that rank and by threads of its process that write into it. If the rank leaves, such a
/// thread keeps the memory until the work that it has enqueued no longer uses it.
class SharedMemory {
 public:
  /// Allocates memory of `kind`, which is ipc or vmm.
  [[nodiscard]] static Result<std::shared_ptr<SharedMemory>> allocate(const PrimaryContext &context, uint64_t bytes,
                                                                      DeviceHandles kind);
  /// Returns the memory of another thread of this process. Returns null if that thread's rank has failed meanwhile.
  [[nodiscard]] static std::shared_ptr<const SharedMemory> find(DevicePointer address);

  [[nodiscard]] DevicePointer address() const;
  /// Returns the size for vmm, rounded up to what the device allocates. For ipc it is 0.
  [[nodiscard]] uint64_t bytes() const { return mapping_.reserved.get().bytes; }
  [[nodiscard]] bool is_vmm() const { return mapping_.reserved.valid(); }
  [[nodiscard]] Result<IpcMemoryHandle> ipc_handle() const;
  [[nodiscard]] Result<FileDescriptor> descriptor() const;
  /// Gives the process's other devices access to this memory, which is vmm, if they can reach its device.
  [[nodiscard]] Result<void> open_to_peers() const;

  // These functions are for vmm. Nothing may use the memory meanwhile.
  /// Gives the physical memory back, and keeps the addresses.
  void release();
  /// Allocates physical memory again, at the same addresses. Its content is undefined.
  [[nodiscard]] Result<void> restore();

 private:
  PrimaryContext context_;  ///< destroyed after the memory
  DeviceMemory memory_;
  PhysicalMemory physical_;
  VmmMapping mapping_;
};

/// Memory of another rank.
struct OpenedMemory {
  /// Unmaps memory of vmm, and keeps the addresses.
  void close_vmm() { vmm.mapped.reset(); }
  DevicePointer address = 0;
  IpcMemory ipc;
  VmmMapping vmm;
};

[[nodiscard]] Result<OpenedMemory> open_ipc(const PrimaryContext &context, const IpcMemoryHandle &handle);
/// Maps memory for which SharedMemory::bytes() of its owner returned `bytes`.
[[nodiscard]] Result<OpenedMemory> open_vmm(const PrimaryContext &context, FileDescriptor descriptor, uint64_t bytes);
/// Maps such memory again, at the addresses that OpenedMemory::close_vmm() has kept.
[[nodiscard]] Result<void> reopen_vmm(const PrimaryContext &context, FileDescriptor descriptor, OpenedMemory &opened);

// These functions have the memory of rondo_device_mem_alloc(). If the device supports it, the memory is physical memory
// with a descriptor, which other processes map without a pause of the device. Otherwise it is memory of cuMemAlloc.

/// Allocates memory. `library` is Config::cuda_library. Any thread may call these functions.
[[nodiscard]] Result<void *> allocate_for_peers(const std::string &library, int32_t device, size_t bytes);
/// Frees such memory. RONDO_ERROR_INVALID_ARGUMENT: `pointer` is not its start.
[[nodiscard]] Result<void> free_for_peers(void *pointer);

/// A range within such memory that other processes can map.
struct MappableRange {
  int descriptor = -1;  ///< owned by the memory
  uint64_t offset = 0;  ///< of the range in the memory
  uint64_t memory_bytes = 0;
};
/// Returns where the bytes lie in such memory, or none if the memory is of another kind or has no descriptor.
[[nodiscard]] std::optional<MappableRange> find_mappable(const void *pointer, size_t bytes);

}  // namespace rondo::cuda
