// SPDX-License-Identifier: Apache-2.0
#include "cuda/transport/shared_memory.h"

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "cuda/driver/handles.h"

namespace rondo::cuda {
namespace {

struct Allocation {
  std::shared_ptr<const SharedMemory> memory;
  FileDescriptor descriptor;  ///< not valid for memory of cuMemAlloc
};

/// The allocations of this process by address. It is never destroyed, as memory may be freed while the process exits.
struct Allocations {
  std::mutex mutex;
  std::map<uint64_t, Allocation> by_address;
};
Allocations &allocations() {
  static auto *const all = new Allocations;
  return *all;
}

bool has(const CudaDriver &driver, CuDevice device, DeviceAttribute attribute) {
  const auto value = device_attribute(driver, device, attribute);
  return value.ok() && value.value() != 0;
}

Result<Allocation> allocate(const PrimaryContext &context, size_t bytes) {
  const auto &[driver, device, object] = context.get();
  Allocation made;
  if (has(*driver, device, DeviceAttribute::virtual_memory_management_supported) &&
      has(*driver, device, DeviceAttribute::posix_descriptor_handles_supported)) {
    RONDO_TRY_ASSIGN(made.memory, SharedMemory::allocate(context, bytes, DeviceHandles::vmm));
    RONDO_TRY(made.memory->open_to_peers());
    RONDO_TRY_ASSIGN(made.descriptor, made.memory->descriptor());
  } else {
    RONDO_TRY_ASSIGN(made.memory, SharedMemory::allocate(context, bytes, DeviceHandles::ipc));
  }
  return made;
}

}  // namespace

Result<void *> allocate_for_peers(const std::string &library, int32_t device, size_t bytes) {
  RONDO_TRY_ASSIGN(const CudaDriver *const driver, cuda_driver(library));
  RONDO_TRY_ASSIGN(const auto devices, cuda_devices(*driver));
  if (device < 0 || static_cast<size_t>(device) >= devices.size())
    return invalid_argument("device is " + std::to_string(device) + ", but this process sees " +
                            std::to_string(devices.size()) + " CUDA devices, numbered from 0 (CUDA_VISIBLE_DEVICES)");
  RONDO_TRY_ASSIGN(const PrimaryContext context, retain_primary_context(*driver, device));
  RONDO_TRY_ASSIGN(Allocation made, allocate(context, bytes));
  const uint64_t address = made.memory->address();
  const std::lock_guard lock(allocations().mutex);
  allocations().by_address[address] = std::move(made);
  return reinterpret_cast<void *>(address);
}

Result<void> free_for_peers(void *pointer) {
  Allocation freed;  // freed without the lock, since that may wait for the device
  const std::lock_guard lock(allocations().mutex);
  const auto found = allocations().by_address.find(reinterpret_cast<uint64_t>(pointer));
  if (found == allocations().by_address.end())
    return invalid_argument("the pointer is not the start of memory of rondo_device_mem_alloc(), or it was freed");
  freed = std::move(found->second);
  allocations().by_address.erase(found);
  return {};
}

std::optional<MappableRange> find_mappable(const void *pointer, size_t bytes) {
  const auto address = reinterpret_cast<uint64_t>(pointer);
  const std::lock_guard lock(allocations().mutex);
  auto after = allocations().by_address.upper_bound(address);
  if (after == allocations().by_address.begin()) return std::nullopt;
  const auto &[begin, allocation] = *--after;
  const uint64_t all = allocation.memory->bytes();  // 0 for memory of cuMemAlloc
  if (address - begin > all || bytes > all - (address - begin)) return std::nullopt;
  return MappableRange{allocation.descriptor.get(), address - begin, all};
}

}  // namespace rondo::cuda
