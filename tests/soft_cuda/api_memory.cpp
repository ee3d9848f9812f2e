// SPDX-License-Identifier: Apache-2.0
// This file has device memory, pinned and managed host memory, and the attributes of pointers.
#include <fcntl.h>
#include <sys/mman.h>

#include <cstring>

#include "tests/soft_cuda/capture.h"
#include "tests/soft_cuda/exports.h"
#include "tests/soft_cuda/state.h"

namespace soft_cuda {
namespace {

size_t whole_pages(size_t bytes) { return (bytes + page_bytes - 1) / page_bytes * page_bytes; }

/// Runs an allocation. An allocation may wait for the device, and may not be part of a capture.
template <class Body>
CuStatus call_to_allocate(Entry entry, const Body &body) {
  return call_in_context(entry, [&](State &driver, Lock &lock, const auto &context) {
    if (const CuStatus status = check_unsafe_call(driver); status != CuStatus::success) return status;
    synchronise_implicitly(driver, lock, context);
    return body(driver, context);
  });
}

/// Maps memory of the host that devices reach. Returns its address, or 0.
uint64_t map_host_memory(State &driver, const std::shared_ptr<Context> &context, RangeKind kind, size_t bytes) {
  Range range;
  range.map_bytes = whole_pages(bytes);
  void *const address = ::mmap(nullptr, range.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return 0;
  range.kind = kind;
  range.base = reinterpret_cast<uint64_t>(address);
  range.bytes = bytes;
  range.device = context->device->ordinal;
  range.context = context->handle;
  return driver.memory.add(std::move(range)).base;
}

void put(void *to, const void *value, size_t bytes) { std::memcpy(to, value, bytes); }
template <class Value>
void put(void *to, Value value) {
  put(to, &value, sizeof value);
}

/// Writes an attribute. For an address without an allocation, cuPointerGetAttributes succeeds, and writes defaults.
/// Managed memory counts as device memory.
bool put_attribute(const Settings &settings, const Range *range, DevicePointer pointer, PointerAttribute attribute,
                   void *to) {
  const bool managed = range != nullptr && range->kind == RangeKind::managed;
  const bool on_device = range != nullptr && is_on_device(range->kind);
  switch (attribute) {
    case PointerAttribute::context:
      put(to, range != nullptr ? range->context : nullptr);
      return true;
    case PointerAttribute::memory_type:
      put(to, range == nullptr ? MemoryType::unknown : on_device || managed ? MemoryType::device : MemoryType::host);
      return true;
    case PointerAttribute::device_pointer:
      put(to, range != nullptr ? pointer : 0);
      return true;
    case PointerAttribute::host_pointer:
      put(to, range != nullptr && (!on_device || settings.host_reads) ? reinterpret_cast<void *>(pointer) : nullptr);
      return true;
    case PointerAttribute::buffer_id:
      put(to, range != nullptr ? range->id : uint64_t{0});
      return true;
    case PointerAttribute::is_managed:
      put(to, managed ? 1u : 0u);
      return true;
    case PointerAttribute::device_ordinal:
      put(to, range != nullptr ? range->device : -2);
      return true;
    case PointerAttribute::is_legacy_ipc_capable:
      put(to, range != nullptr && range->kind == RangeKind::device ? 1u : 0u);
      return true;
    case PointerAttribute::range_start:
      put(to, range != nullptr ? DevicePointer{range->base} : 0);
      return true;
    case PointerAttribute::range_size:
      put(to, range != nullptr ? range->bytes : size_t{0});
      return true;
    case PointerAttribute::mapped:
      put(to, range != nullptr ? 1u : 0u);
      return true;
    case PointerAttribute::allowed_handle_types:
      put(to, uint64_t{on_device && range->kind == RangeKind::mapped && range->physical->exportable});
      return true;
  }
  return false;
}

}  // namespace
}  // namespace soft_cuda

using namespace soft_cuda;

extern "C" {

CuStatus cuPointerGetAttributes(unsigned count, PointerAttribute *attributes, void **data, DevicePointer pointer) {
  return call_in_context(Entry::pointer_get_attributes, [&](State &driver, Lock &, const auto &) {
    if (count == 0 || attributes == nullptr || data == nullptr) return CuStatus::invalid_value;
    const Range *const range = driver.memory.find(pointer);
    for (unsigned index = 0; index < count; ++index)
      if (data[index] == nullptr || !put_attribute(driver.settings, range, pointer, attributes[index], data[index]))
        return CuStatus::invalid_value;
    return CuStatus::success;
  });
}

CuStatus cuMemAlloc_v2(DevicePointer *pointer, size_t bytes) {
  return call_to_allocate(Entry::mem_alloc, [&](State &driver, const auto &context) {
    if (pointer == nullptr || bytes == 0) return CuStatus::invalid_value;
    Device &device = *context->device;
    const size_t map_bytes = whole_pages(bytes);
    const uint64_t total = driver.settings.memory_bytes;
    if (bytes > total || map_bytes > total - device.used_bytes) return CuStatus::out_of_memory;
    CuStatus status = CuStatus::success;
    auto physical = make_physical(map_bytes, device.number, &device.used_bytes, status);
    if (physical == nullptr) return status;
    void *const address = map_physical(*physical, map_bytes);
    if (address == nullptr) return CuStatus::out_of_memory;
    Range range;
    range.base = reinterpret_cast<uint64_t>(address);
    range.bytes = bytes;
    range.map_bytes = map_bytes;
    range.device = device.ordinal;
    range.context = context->handle;
    range.physical = std::move(physical);
    *pointer = driver.memory.add(std::move(range)).base;
    return CuStatus::success;
  });
}

CuStatus cuMemFree_v2(DevicePointer pointer) {
  return call_to_close(Entry::mem_free, [&](State &driver, Lock &lock, const auto &context) {
    if (pointer == 0) return CuStatus::success;
    if (const CuStatus status = check_unsafe_call(driver); status != CuStatus::success) return status;
    // This call waits whatever SOFT_CUDA_SYNC says, because work may use the memory.
    const Range *range = driver.memory.find(pointer);
    const auto owner = range == nullptr ? nullptr : driver.contexts.find(range->context);
    synchronise(lock, context);
    if (owner != nullptr && owner != context) synchronise(lock, owner);
    range = driver.memory.find(pointer);
    if (range == nullptr || range->base != pointer ||
        (range->kind != RangeKind::device && range->kind != RangeKind::managed))
      return CuStatus::invalid_value;
    unmap(range->base, range->map_bytes);
    driver.memory.ranges.erase(range->base);
    return CuStatus::success;
  });
}

CuStatus cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
  return call_in_context(Entry::mem_get_info, [&](State &driver, Lock &, const auto &context) {
    if (free_bytes == nullptr || total_bytes == nullptr) return CuStatus::invalid_value;
    *total_bytes = driver.settings.memory_bytes;
    *free_bytes = driver.settings.memory_bytes - context->device->used_bytes;
    return CuStatus::success;
  });
}

CuStatus cuMemGetAddressRange_v2(DevicePointer *base, size_t *bytes, DevicePointer pointer) {
  return call_in_context(Entry::mem_get_address_range, [&](State &driver, Lock &, const auto &) {
    const Range *const range = driver.memory.find(pointer);
    if (range == nullptr || (!is_on_device(range->kind) && range->kind != RangeKind::managed))
      return CuStatus::not_found;
    if (base != nullptr) *base = range->base;
    if (bytes != nullptr) *bytes = range->bytes;
    return CuStatus::success;
  });
}

CuStatus cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
  return call_to_allocate(Entry::mem_host_alloc, [&](State &driver, const auto &context) {
    if (pointer == nullptr || bytes == 0 || flags > 7) return CuStatus::invalid_value;
    *pointer = reinterpret_cast<void *>(map_host_memory(driver, context, RangeKind::host, bytes));
    return *pointer != nullptr ? CuStatus::success : CuStatus::out_of_memory;
  });
}

CuStatus cuMemAllocManaged(DevicePointer *pointer, size_t bytes, unsigned flags) {
  return call_to_allocate(Entry::mem_alloc, [&](State &driver, const auto &context) {
    constexpr unsigned attach_global = 1, attach_host = 2;
    if (pointer == nullptr || bytes == 0 || (flags != attach_global && flags != attach_host))
      return CuStatus::invalid_value;
    *pointer = map_host_memory(driver, context, RangeKind::managed, bytes);
    return *pointer != 0 ? CuStatus::success : CuStatus::out_of_memory;
  });
}

CuStatus cuMemFreeHost(void *pointer) {
  return call_to_close(Entry::mem_free_host, [&](State &driver, Lock &lock, const auto &context) {
    if (const CuStatus status = check_unsafe_call(driver); status != CuStatus::success) return status;
    synchronise(lock, context);
    const auto address = reinterpret_cast<uint64_t>(pointer);
    Range *const range = driver.memory.find(address);
    if (range == nullptr || range->base != address || range->kind != RangeKind::host) return CuStatus::invalid_value;
    unmap(range->base, range->map_bytes);
    driver.memory.ranges.erase(address);
    return CuStatus::success;
  });
}

CuStatus cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags) {
  return call_to_allocate(Entry::mem_host_register, [&](State &driver, const auto &context) {
    if (pointer == nullptr || bytes == 0 || flags > 15) return CuStatus::invalid_value;
    const auto address = reinterpret_cast<uint64_t>(pointer);
    if (driver.memory.find(address) != nullptr || driver.memory.find(address + bytes - 1) != nullptr)
      return CuStatus::host_memory_already_registered;
    Range range;
    range.kind = RangeKind::registered;
    range.base = address;
    range.bytes = bytes;
    range.device = context->device->ordinal;
    range.context = context->handle;
    driver.memory.add(std::move(range));
    return CuStatus::success;
  });
}

CuStatus cuMemHostUnregister(void *pointer) {
  return call_to_close(Entry::mem_host_unregister, [&](State &driver, Lock &lock, const auto &context) {
    if (const CuStatus status = check_unsafe_call(driver); status != CuStatus::success) return status;
    synchronise(lock, context);
    const auto address = reinterpret_cast<uint64_t>(pointer);
    Range *const range = driver.memory.find(address);
    if (range == nullptr || range->base != address || range->kind != RangeKind::registered)
      return CuStatus::host_memory_not_registered;
    driver.memory.ranges.erase(address);
    return CuStatus::success;
  });
}

CuStatus cuMemHostGetDevicePointer_v2(DevicePointer *device_pointer, void *pointer, unsigned flags) {
  return call_in_context(Entry::mem_host_get_device_pointer, [&](State &driver, Lock &, const auto &) {
    const Range *const range = driver.memory.find(reinterpret_cast<uint64_t>(pointer));
    if (device_pointer == nullptr || flags != 0 || range == nullptr || is_on_device(range->kind))
      return CuStatus::invalid_value;
    *device_pointer = reinterpret_cast<uint64_t>(pointer);
    return CuStatus::success;
  });
}

/// Returns a memfd. No network card accepts it as a dmabuf.
CuStatus cuMemGetHandleForAddressRange(void *handle, DevicePointer pointer, size_t bytes, RangeHandleType type,
                                       unsigned long long flags) {
  return call_in_context(Entry::mem_get_range_handle, [&](State &driver, Lock &, const auto &) {
    if (!driver.settings.dmabuf) return CuStatus::not_supported;
    const Range *const range = driver.memory.find(pointer, bytes);
    if (handle == nullptr || range == nullptr || range->physical == nullptr || bytes == 0 || flags != 0 ||
        pointer % page_bytes != 0 || bytes % page_bytes != 0 || type != RangeHandleType::dma_buf_descriptor)
      return CuStatus::invalid_value;
    const int descriptor = ::fcntl(range->physical->descriptor, F_DUPFD_CLOEXEC, 0);
    if (descriptor < 0) return CuStatus::operating_system;
    put(handle, descriptor);
    return CuStatus::success;
  });
}

CuStatus cuFlushGPUDirectRDMAWrites(FlushTarget target, FlushScope scope) {
  return call_in_context(Entry::flush_gpu_direct_writes, [&](State &driver, Lock &, const auto &) {
    if (driver.settings.gpu_direct != GpuDirect::flush) return CuStatus::not_supported;
    const bool knows_scope = scope == FlushScope::to_owner || scope == FlushScope::to_all_devices;
    if (target != FlushTarget::current_context || !knows_scope) return CuStatus::invalid_value;
    ++driver.flush_count;
    return CuStatus::success;
  });
}

}  // extern "C"
