// SPDX-License-Identifier: Apache-2.0
// This file shares device memory between processes, by handles of 64 bytes. api_event.cpp has the handles of events.
#include <sys/stat.h>

#include "tests/soft_cuda/exports.h"
#include "tests/soft_cuda/ipc.h"
#include "tests/soft_cuda/state.h"

namespace soft_cuda {
namespace {

Range *find_import(State &driver, uint64_t key) {
  for (auto &[base, range] : driver.memory.ranges)
    if (range.kind == RangeKind::imported && range.import_key == key) return &range;
  return nullptr;
}

CuStatus map_import(State &driver, const Context &context, const Fetched &fetched, uint64_t key,
                    DevicePointer *pointer) {
  auto physical = std::make_shared<Physical>();
  physical->descriptor = fetched.descriptor;
  physical->device = fetched.device;
  if (!driver.settings.peers.reach(context.device->number, fetched.device)) return CuStatus::peer_access_unsupported;
  struct stat file {};
  if (::fstat(fetched.descriptor, &file) != 0 || static_cast<uint64_t>(file.st_size) < fetched.bytes ||
      fetched.bytes == 0 || device_of_descriptor(fetched.descriptor) != fetched.device)
    return CuStatus::map_failed;
  physical->bytes = static_cast<size_t>(file.st_size);
  void *const address = map_physical(*physical, physical->bytes);
  if (address == nullptr) return CuStatus::map_failed;
  Range range;
  range.kind = RangeKind::imported;
  range.base = reinterpret_cast<uint64_t>(address);
  range.bytes = fetched.bytes;
  range.map_bytes = physical->bytes;
  range.device = ordinal_of(driver, fetched.device);
  range.context = context.handle;
  range.import_key = key;
  range.access = uint64_t{1} << context.device->number;
  range.physical = std::move(physical);
  *pointer = driver.memory.add(std::move(range)).base;
  return CuStatus::success;
}

}  // namespace
}  // namespace soft_cuda

using namespace soft_cuda;

extern "C" {

CuStatus cuIpcGetMemHandle(IpcMemoryHandle *handle, DevicePointer pointer) {
  return call_in_context(Entry::ipc_get_mem_handle, [&](State &driver, Lock &, const auto &) {
    const Range *const range = driver.memory.find(pointer);
    // "dptr: base pointer to previously allocated device memory" means memory of cuMemAlloc, not of cuMemMap.
    if (handle == nullptr || range == nullptr || range->base != pointer || range->kind != RangeKind::device)
      return CuStatus::invalid_value;
    return offer(range->physical->descriptor, ExportKind::memory, range->physical->device, range->bytes,
                 range->physical, handle->bytes);
  });
}

CuStatus cuIpcOpenMemHandle_v2(DevicePointer *pointer, IpcMemoryHandle handle, unsigned flags) {
  return call_in_context(Entry::ipc_open_mem_handle, [&](State &driver, Lock &lock, const auto &context) {
    const uint64_t key = export_key(handle.bytes, ExportKind::memory);
    if (pointer == nullptr || flags != ipc_lazy_enable_peer_access || key == 0) return CuStatus::invalid_value;
    synchronise_implicitly(driver, lock, context);
    // If the context has opened the handle before, the driver counts one more reference and returns the same pointer.
    if (Range *const known = find_import(driver, key)) {
      if (!driver.settings.peers.reach(context->device->number, known->physical->device))
        return CuStatus::peer_access_unsupported;
      ++known->references;
      known->access |= uint64_t{1} << context->device->number;
      *pointer = known->base;
      return CuStatus::success;
    }
    Fetched fetched;
    lock.unlock();  // the owner's answer may take a while
    const CuStatus status = fetch(handle.bytes, ExportKind::memory, fetched);
    lock.lock();
    if (status != CuStatus::success) return status;
    return map_import(driver, *context, fetched, key, pointer);
  });
}

CuStatus cuIpcCloseMemHandle(DevicePointer pointer) {
  return call_to_close(Entry::ipc_close_mem_handle, [&](State &driver, Lock &lock, const auto &context) {
    synchronise(lock, context);
    Range *const range = driver.memory.find(pointer);
    if (range == nullptr || range->base != pointer || range->kind != RangeKind::imported)
      return CuStatus::invalid_value;
    if (--range->references != 0) return CuStatus::success;
    unmap(range->base, range->map_bytes);
    driver.memory.ranges.erase(pointer);
    return CuStatus::success;
  });
}

}  // extern "C"
