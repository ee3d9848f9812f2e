// SPDX-License-Identifier: Apache-2.0
#include "cuda/transport/shared_memory.h"

#include <fcntl.h>

#include <cerrno>

#include "cuda/driver/shared_table.h"

namespace rondo::cuda {
namespace {

using HeldMemories = SharedTable<DevicePointer, const SharedMemory>;

/// Returns this process's memories by address.
HeldMemories &held() {
  static auto *const all = new HeldMemories;
  return *all;
}

MemoryProperties properties_for(CuDevice device) {
  MemoryProperties properties;
  properties.requested_handle_types = HandleType::posix_descriptor;
  properties.location = {LocationType::device, device};
  return properties;
}

/// Returns how many bytes of physical memory hold `bytes`.
Result<uint64_t> vmm_bytes(const PrimaryContext &context, uint64_t bytes) {
  const auto &[driver, device, object] = context.get();
  const MemoryProperties properties = properties_for(device);
  size_t granularity = 0;
  RONDO_TRY(cuda_check(*driver, driver->vmm_get_granularity(&granularity, &properties, Granularity::minimum),
                       "cuMemGetAllocationGranularity"));
  return (bytes + granularity - 1) / granularity * granularity;
}

/// Allocates physical memory on the device of `context`, which must be current.
Result<PhysicalMemory> create_physical(const PrimaryContext &context, uint64_t bytes) {
  const auto &[driver, device, object] = context.get();
  const MemoryProperties properties = properties_for(device);
  MemoryHandle physical = 0;
  const CuStatus created = driver->vmm_create(&physical, bytes, &properties, 0);
  if (created != CuStatus::success)
    return cuda_error(*driver, created, "cuMemCreate of " + std::to_string(bytes) + " bytes");
  return PhysicalMemory({driver, object, physical});
}

/// Maps the memory at the reserved addresses, for the device of `context`, which must be current.
Result<void> map_at_reserved(const PrimaryContext &context, MemoryHandle physical, VmmMapping &mapping) {
  const auto &[driver, device, object] = context.get();
  const DevicePointer address = mapping.reserved.get().address;
  const size_t bytes = mapping.reserved.get().bytes;
  RONDO_TRY(cuda_check(*driver, driver->vmm_map(address, bytes, 0, physical, 0), "cuMemMap"));
  mapping.mapped = MappedAddresses({driver, object, address, bytes});
  const MemoryAccess access{{LocationType::device, device}, AccessFlags::read_write};
  return cuda_check(*driver, driver->vmm_set_access(address, bytes, &access, 1), "cuMemSetAccess");
}

/// Maps the memory for the device of `context`, which must be current.
Result<VmmMapping> map_physical(const PrimaryContext &context, MemoryHandle physical, uint64_t bytes) {
  const auto &[driver, device, object] = context.get();
  VmmMapping made;
  DevicePointer address = 0;
  RONDO_TRY(cuda_check(*driver, driver->vmm_address_reserve(&address, bytes, 0, 0, 0), "cuMemAddressReserve"));
  made.reserved = ReservedAddresses({driver, object, address, bytes});
  RONDO_TRY(map_at_reserved(context, physical, made));
  return made;
}

/// Opens the physical memory of a descriptor. The context must be current. The result may be closed once it is mapped.
Result<PhysicalMemory> import_physical(const PrimaryContext &context, const FileDescriptor &descriptor) {
  const auto &[driver, device, object] = context.get();
  MemoryHandle handle = 0;
  void *const shareable = reinterpret_cast<void *>(static_cast<intptr_t>(descriptor.get()));
  RONDO_TRY(cuda_check(*driver, driver->vmm_import(&handle, shareable, HandleType::posix_descriptor),
                       "cuMemImportFromShareableHandle"));
  return PhysicalMemory({driver, object, handle});
}

}  // namespace

Result<std::shared_ptr<SharedMemory>> SharedMemory::allocate(const PrimaryContext &context, uint64_t bytes,
                                                             DeviceHandles kind) {
  const auto &[driver, device, object] = context.get();
  auto made = std::make_shared<SharedMemory>();
  RONDO_TRY_ASSIGN(made->context_, retain_primary_context(*driver, device));
  if (kind == DeviceHandles::vmm) {
    const ContextGuard guard(*driver, object);
    RONDO_TRY(guard.status());
    RONDO_TRY_ASSIGN(const uint64_t all_bytes, vmm_bytes(context, bytes));
    RONDO_TRY_ASSIGN(made->physical_, create_physical(context, all_bytes));
    RONDO_TRY_ASSIGN(made->mapping_, map_physical(context, made->physical_.get().object, all_bytes));
  } else {
    RONDO_TRY_ASSIGN(made->memory_, allocate_device_memory(context, bytes));
  }
  held().add(made->address(), made);
  return made;
}

std::shared_ptr<const SharedMemory> SharedMemory::find(DevicePointer address) { return held().find(address); }

DevicePointer SharedMemory::address() const {
  return is_vmm() ? mapping_.reserved.get().address : memory_.get().object;
}

Result<IpcMemoryHandle> SharedMemory::ipc_handle() const {
  const auto &[driver, context, address] = memory_.get();
  const ContextGuard guard(*driver, context);
  RONDO_TRY(guard.status());
  IpcMemoryHandle handle{};
  RONDO_TRY(cuda_check(*driver, driver->ipc_get_mem_handle(&handle, address), "cuIpcGetMemHandle"));
  return handle;
}

Result<FileDescriptor> SharedMemory::descriptor() const {
  const auto &[driver, context, physical] = physical_.get();
  const ContextGuard guard(*driver, context);
  RONDO_TRY(guard.status());
  int exported = -1;
  RONDO_TRY(cuda_check(*driver, driver->vmm_export(&exported, physical, HandleType::posix_descriptor, 0),
                       "cuMemExportToShareableHandle"));
  FileDescriptor descriptor(exported);
  if (::fcntl(descriptor.get(), F_SETFD, FD_CLOEXEC) != 0)
    return system_error("fcntl(FD_CLOEXEC) of device memory", errno);
  return descriptor;
}

void SharedMemory::release() {
  mapping_.mapped.reset();
  physical_.reset();
}

Result<void> SharedMemory::restore() {
  const auto &[driver, device, object] = context_.get();
  const ContextGuard guard(*driver, object);
  RONDO_TRY(guard.status());
  RONDO_TRY_ASSIGN(physical_, create_physical(context_, bytes()));
  return map_at_reserved(context_, physical_.get().object, mapping_);
}

Result<void> SharedMemory::open_to_peers() const {
  const auto &[driver, device, object] = context_.get();
  const ContextGuard guard(*driver, object);
  RONDO_TRY(guard.status());
  RONDO_TRY_ASSIGN(const auto devices, cuda_devices(*driver));
  for (const CudaDevice &peer : devices) {
    int reaches = 0;
    if (peer.ordinal == device) continue;
    const bool asked = driver->device_can_access_peer(&reaches, peer.ordinal, device) == CuStatus::success;
    if (!asked || reaches == 0) continue;
    const MemoryAccess access{{LocationType::device, peer.ordinal}, AccessFlags::read_write};
    RONDO_TRY(cuda_check(*driver, driver->vmm_set_access(address(), bytes(), &access, 1), "cuMemSetAccess"));
  }
  return {};
}

Result<OpenedMemory> open_ipc(const PrimaryContext &context, const IpcMemoryHandle &handle) {
  const auto &[driver, device, object] = context.get();
  const ContextGuard guard(*driver, object);
  RONDO_TRY(guard.status());
  OpenedMemory opened;
  RONDO_TRY(cuda_check(*driver, driver->ipc_open_mem_handle(&opened.address, handle, ipc_lazy_enable_peer_access),
                       "cuIpcOpenMemHandle"));
  opened.ipc = IpcMemory({driver, object, opened.address});
  return opened;
}

Result<OpenedMemory> open_vmm(const PrimaryContext &context, FileDescriptor descriptor, uint64_t bytes) {
  const auto &[driver, device, object] = context.get();
  const ContextGuard guard(*driver, object);
  RONDO_TRY(guard.status());
  RONDO_TRY_ASSIGN(const PhysicalMemory physical, import_physical(context, descriptor));
  OpenedMemory opened;
  RONDO_TRY_ASSIGN(opened.vmm, map_physical(context, physical.get().object, bytes));
  opened.address = opened.vmm.reserved.get().address;
  return opened;
}

Result<void> reopen_vmm(const PrimaryContext &context, FileDescriptor descriptor, OpenedMemory &opened) {
  const auto &[driver, device, object] = context.get();
  const ContextGuard guard(*driver, object);
  RONDO_TRY(guard.status());
  RONDO_TRY_ASSIGN(const PhysicalMemory physical, import_physical(context, descriptor));
  return map_at_reserved(context, physical.get().object, opened.vmm);
}

}  // namespace rondo::cuda
