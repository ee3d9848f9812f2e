// SPDX-License-Identifier: Apache-2.0
// This file has separate calls for physical memory, addresses and access, and handles that are descriptors.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "tests/soft_cuda/capture.h"
#include "tests/soft_cuda/exports.h"
#include "tests/soft_cuda/state.h"

namespace soft_cuda {
namespace {

bool is_granular(uint64_t value) { return value % granularity_bytes == 0; }

bool are_valid(State &driver, const MemoryProperties *properties) {
  return properties != nullptr && properties->type == AllocationType::pinned &&
         properties->location.type == LocationType::device && device_of(driver, properties->location.id) != nullptr &&
         (properties->requested_handle_types == HandleType::none ||
          properties->requested_handle_types == HandleType::posix_descriptor);
}

bool is_reserved(const State &driver, uint64_t address, size_t bytes) {
  auto after = driver.memory.reservations.upper_bound(address);
  if (after == driver.memory.reservations.begin()) return false;
  const auto &[base, reserved] = *std::prev(after);
  return address - base < reserved && bytes <= reserved - (address - base);
}

/// Removes access and memory from the addresses, so that they are only reserved again.
bool blank(uint64_t address, size_t bytes) {
  return ::mmap(reinterpret_cast<void *>(address), bytes, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

bool overlaps_mapping(const State &driver, uint64_t address, size_t bytes) {
  auto next = driver.memory.ranges.lower_bound(address);
  if (next != driver.memory.ranges.end() && next->first < address + bytes) return true;
  return next != driver.memory.ranges.begin() && std::prev(next)->first + std::prev(next)->second.bytes > address;
}

CuStatus import_descriptor(State &driver, int descriptor, MemoryHandle *handle) {
  struct stat file {};
  const int device = device_of_descriptor(descriptor);
  // A device accepts memory of a device that this process does not see (CUDA_VISIBLE_DEVICES).
  if (device < 0 || device >= driver.settings.device_count || ::fstat(descriptor, &file) != 0) return CuStatus::unknown;
  auto physical = std::make_shared<Physical>();
  physical->descriptor = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (physical->descriptor < 0) return CuStatus::operating_system;
  physical->bytes = static_cast<size_t>(file.st_size);
  physical->device = device;
  *handle = ++driver.memory.next_handle;
  driver.memory.handles[*handle] = {std::move(physical)};
  return CuStatus::success;
}

CuStatus map_range(Range &range, AccessFlags flags) {
  const int protection = flags == AccessFlags::none   ? PROT_NONE
                         : flags == AccessFlags::read ? PROT_READ
                                                      : PROT_READ | PROT_WRITE;
  if (::mprotect(reinterpret_cast<void *>(range.base), range.bytes, protection) != 0) return CuStatus::operating_system;
  range.accessible = flags != AccessFlags::none;
  return CuStatus::success;
}

}  // namespace
}  // namespace soft_cuda

using namespace soft_cuda;

extern "C" {

CuStatus cuMemGetAllocationGranularity(size_t *bytes, const MemoryProperties *properties, Granularity kind) {
  return call(Entry::vmm_get_granularity, [&](State &driver, Lock &) {
    if (bytes == nullptr || !are_valid(driver, properties) ||
        (kind != Granularity::minimum && kind != Granularity::recommended))
      return CuStatus::invalid_value;
    *bytes = granularity_bytes;
    return CuStatus::success;
  });
}

CuStatus cuMemCreate(MemoryHandle *handle, size_t bytes, const MemoryProperties *properties, unsigned long long flags) {
  return call(Entry::vmm_create, [&](State &driver, Lock &) {
    if (handle == nullptr || bytes == 0 || !is_granular(bytes) || flags != 0 || !are_valid(driver, properties))
      return CuStatus::invalid_value;
    Device &device = *device_of(driver, properties->location.id);
    if (bytes > driver.settings.memory_bytes - device.used_bytes) return CuStatus::out_of_memory;
    CuStatus status = CuStatus::success;
    auto physical = make_physical(bytes, device.number, &device.used_bytes, status);
    if (physical == nullptr) return status;
    physical->exportable = properties->requested_handle_types == HandleType::posix_descriptor;
    *handle = ++driver.memory.next_handle;
    driver.memory.handles[*handle] = {std::move(physical)};
    return CuStatus::success;
  });
}

CuStatus cuMemRelease(MemoryHandle handle) {
  return call(Entry::vmm_release, [&](State &driver, Lock &) {
    // Memory that is still mapped lives on until it is unmapped.
    return driver.memory.handles.erase(handle) != 0 ? CuStatus::success : CuStatus::invalid_value;
  });
}

CuStatus cuMemAddressReserve(DevicePointer *address, size_t bytes, size_t alignment, DevicePointer,
                             unsigned long long flags) {
  return call(Entry::vmm_address_reserve, [&](State &driver, Lock &) {
    if (address == nullptr || bytes == 0 || !is_granular(bytes) || flags != 0 || (alignment & (alignment - 1)) != 0)
      return CuStatus::invalid_value;
    const size_t boundary = alignment > granularity_bytes ? alignment : granularity_bytes;
    void *const wide = ::mmap(nullptr, bytes + boundary, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (wide == MAP_FAILED) return CuStatus::out_of_memory;
    const auto begin = reinterpret_cast<uint64_t>(wide);
    const uint64_t base = (begin + boundary - 1) / boundary * boundary;
    if (base > begin) unmap(begin, base - begin);
    if (base - begin < boundary) unmap(base + bytes, boundary - (base - begin));
    driver.memory.reservations[base] = bytes;
    *address = base;
    return CuStatus::success;
  });
}

CuStatus cuMemAddressFree(DevicePointer address, size_t bytes) {
  return call(Entry::vmm_address_free, [&](State &driver, Lock &) {
    const auto found = driver.memory.reservations.find(address);
    if (found == driver.memory.reservations.end() || found->second != bytes || overlaps_mapping(driver, address, bytes))
      return CuStatus::invalid_value;
    driver.memory.reservations.erase(found);
    unmap(address, bytes);
    return CuStatus::success;
  });
}

CuStatus cuMemMap(DevicePointer address, size_t bytes, size_t offset, MemoryHandle handle, unsigned long long flags) {
  return call(Entry::vmm_map, [&](State &driver, Lock &) {
    const auto found = driver.memory.handles.find(handle);
    // "offset must be zero."
    if (found == driver.memory.handles.end() || bytes == 0 || !is_granular(address) || !is_granular(bytes) ||
        offset != 0 || flags != 0 || bytes > found->second.physical->bytes || !is_reserved(driver, address, bytes) ||
        overlaps_mapping(driver, address, bytes))
      return CuStatus::invalid_value;
    const auto &physical = found->second.physical;
    if (::mmap(reinterpret_cast<void *>(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, physical->descriptor, 0) ==
        MAP_FAILED)
      return CuStatus::out_of_memory;
    Range range;
    range.kind = RangeKind::mapped;
    range.base = address;
    range.bytes = range.map_bytes = bytes;
    range.device = ordinal_of(driver, physical->device);
    range.accessible = false;
    range.physical = physical;
    driver.memory.add(std::move(range));
    return CuStatus::success;
  });
}

CuStatus cuMemUnmap(DevicePointer address, size_t bytes) {
  return call(Entry::vmm_unmap, [&](State &driver, Lock &lock) {
    for (const Device &device : driver.devices)
      if (const auto context = device.primary) synchronise(lock, context);
    // "The range must be the whole of mappings", so none is cut.
    std::vector<uint64_t> bases;
    size_t covered = 0;
    for (auto entry = driver.memory.ranges.lower_bound(address);
         entry != driver.memory.ranges.end() && entry->first < address + bytes; ++entry) {
      if (entry->second.kind != RangeKind::mapped) return CuStatus::invalid_value;
      bases.push_back(entry->first);
      covered += entry->second.bytes;
    }
    if (bytes == 0) return CuStatus::invalid_value;
    if (bases.empty() && is_reserved(driver, address, bytes)) return CuStatus::success;
    if (covered != bytes) return CuStatus::invalid_value;
    if (!blank(address, bytes)) return CuStatus::operating_system;
    for (const uint64_t base : bases) driver.memory.ranges.erase(base);
    return CuStatus::success;
  });
}

CuStatus cuMemSetAccess(DevicePointer address, size_t bytes, const MemoryAccess *access, size_t count) {
  return call(Entry::vmm_set_access, [&](State &driver, Lock &) {
    if (access == nullptr || count == 0 || bytes == 0) return CuStatus::invalid_value;
    for (size_t index = 0; index < count; ++index)
      if (access[index].location.type != LocationType::device ||
          device_of(driver, access[index].location.id) == nullptr)
        return CuStatus::invalid_device;
    size_t covered = 0;
    for (uint64_t at = address; at < address + bytes;) {
      Range *const range = driver.memory.find(at);
      if (range == nullptr || range->kind != RangeKind::mapped || range->base != at) return CuStatus::invalid_value;
      for (size_t index = 0; index < count; ++index)
        if (access[index].flags != AccessFlags::none &&
            !driver.settings.peers.reach(device_of(driver, access[index].location.id)->number, range->physical->device))
          return CuStatus::not_supported;
      covered += range->bytes;
      at += range->bytes;
    }
    if (covered != bytes) return CuStatus::invalid_value;
    CuStatus status = CuStatus::success;
    // One mapping serves all devices of this process, so the last setting in `access` applies.
    for (uint64_t at = address; at < address + bytes && status == CuStatus::success;) {
      Range *const range = driver.memory.find(at);
      at += range->bytes;
      status = map_range(*range, access[count - 1].flags);
      for (size_t index = 0; index < count; ++index) {
        const uint64_t bit = uint64_t{1} << device_of(driver, access[index].location.id)->number;
        range->access = access[index].flags == AccessFlags::none ? range->access & ~bit : range->access | bit;
      }
    }
    return status;
  });
}

CuStatus cuMemExportToShareableHandle(void *shareable, MemoryHandle handle, HandleType type, unsigned long long flags) {
  return call(Entry::vmm_export, [&](State &driver, Lock &) {
    const auto found = driver.memory.handles.find(handle);
    if (shareable == nullptr || flags != 0 || found == driver.memory.handles.end() ||
        type != HandleType::posix_descriptor || !found->second.physical->exportable)
      return CuStatus::invalid_value;
    const int descriptor = ::fcntl(found->second.physical->descriptor, F_DUPFD_CLOEXEC, 0);
    if (descriptor < 0) return CuStatus::operating_system;
    std::memcpy(shareable, &descriptor, sizeof descriptor);
    return CuStatus::success;
  });
}

CuStatus cuMemImportFromShareableHandle(MemoryHandle *handle, void *shareable, HandleType type) {
  return call(Entry::vmm_import, [&](State &driver, Lock &) {
    // A descriptor is passed as the pointer itself.
    const auto descriptor = static_cast<int>(reinterpret_cast<intptr_t>(shareable));
    if (handle == nullptr || type != HandleType::posix_descriptor) return CuStatus::invalid_value;
    return import_descriptor(driver, descriptor, handle);
  });
}

}  // extern "C"
