// SPDX-License-Identifier: Apache-2.0
// Memory of a device into which other ranks write. Threads of its process on the same device use its addresses; all
// others open it, in one of two ways:
//
//   ipc  cuMemAlloc, and a handle of CUDA IPC. Threads of the process on another device use the same addresses, after
//        peer access between the contexts. The owner must not free it while others use it.
//   vmm  Physical memory and a descriptor of it, which travels by a unix socket. A rank opens and maps it for its own
//        device, and what is mapped stays until the last one unmaps it.
#pragma once

#include <cstdint>
#include <memory>

#include "cuda/transport/info_exchange.h"
#include "cuda/driver/handles.h"
#include "src/base/config.h"

namespace rondo::cuda {

/// Physical memory at addresses of this process.
struct VmmMapping {
  ReservedAddresses reserved;
  MappedAddresses mapped;  ///< gone before them
};

/// Memory of a rank. Its rank holds it, and so do threads of its process that write into it. If the rank leaves, a
/// thread that still works on what it has enqueued keeps the memory.
class SharedMemory {
 public:
  /// Allocates memory of `kind`, which is ipc or vmm.
  [[nodiscard]] static Result<std::shared_ptr<const SharedMemory>> allocate(const PrimaryContext &context,
                                                                            uint64_t bytes, DeviceHandles kind);
  /// Returns the memory of another thread of this process, or null if its rank has given up meanwhile.
  [[nodiscard]] static std::shared_ptr<const SharedMemory> find(DevicePointer address);

  [[nodiscard]] DevicePointer address() const;
  /// Returns the size for vmm, rounded up to what the device allocates. With ipc it is 0.
  [[nodiscard]] uint64_t bytes() const { return mapping_.reserved.get().bytes; }
  [[nodiscard]] bool is_vmm() const { return physical_.valid(); }
  [[nodiscard]] Result<IpcMemoryHandle> ipc_handle() const;
  [[nodiscard]] Result<FileDescriptor> descriptor() const;

 private:
  PrimaryContext context_;  ///< gone after the memory
  DeviceMemory memory_;
  PhysicalMemory physical_;
  VmmMapping mapping_;
};

/// Another rank's.
struct OpenedMemory {
  DevicePointer address = 0;
  IpcMemory ipc;
  VmmMapping vmm;
};

[[nodiscard]] Result<OpenedMemory> open_ipc(const PrimaryContext &context, const IpcMemoryHandle &handle);
/// Maps memory for which SharedMemory::bytes() of its owner returned `bytes`.
[[nodiscard]] Result<OpenedMemory> open_vmm(const PrimaryContext &context, FileDescriptor descriptor, uint64_t bytes);

}  // namespace rondo::cuda
