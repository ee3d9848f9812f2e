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
#include "cuda/transport/handles.h"
#include "src/base/config.h"

namespace rondo::cuda {

/// Physical memory at addresses of this process.
struct VmmMapping {
  ReservedAddresses reserved;
  MappedAddresses mapped;  ///< gone before them
};

/// A rank's own. Held by its rank, and by the threads of its process that write into it: a rank that has left does not
/// take it away from one that still works off what it had enqueued.
class SharedMemory {
 public:
  /// `kind`: ipc or vmm.
  [[nodiscard]] static Result<std::shared_ptr<const SharedMemory>> allocate(const PrimaryContext &context,
                                                                            uint64_t bytes, DeviceHandles kind);
  /// That of another thread of this process. Null: its rank has given up meanwhile.
  [[nodiscard]] static std::shared_ptr<const SharedMemory> find(DevicePointer address);

  [[nodiscard]] DevicePointer address() const;
  /// vmm: rounded up to what the device gives out; ipc: 0.
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
/// `bytes`: SharedMemory::bytes() of its owner.
[[nodiscard]] Result<OpenedMemory> open_vmm(const PrimaryContext &context, FileDescriptor descriptor, uint64_t bytes);

}  // namespace rondo::cuda
