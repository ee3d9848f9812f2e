// SPDX-License-Identifier: Apache-2.0
// This file has devices and their primary contexts.
#include <array>
#include <cstdio>
#include <cstring>

#include "tests/soft_cuda/capture.h"
#include "tests/soft_cuda/exports.h"
#include "tests/soft_cuda/streams.h"

namespace soft_cuda {
namespace {

constexpr int context_depth_max = 1024;

template <class Body>
CuStatus call_on_device(Entry entry, CuDevice ordinal, const Body &body) {
  return call(entry, [&](State &driver, Lock &lock) {
    Device *const device = device_of(driver, ordinal);
    return device == nullptr ? CuStatus::invalid_device : body(driver, lock, *device);
  });
}

/// Returns an attribute of a device. Its multiprocessors are just enough for the resident blocks of the settings.
int attribute_of(const State &driver, const Device &device, DeviceAttribute attribute) {
  switch (attribute) {
    case DeviceAttribute::max_threads_per_block:
    case DeviceAttribute::max_threads_per_multiprocessor:
      return 1024;
    case DeviceAttribute::max_shared_memory_per_block:
      return 48 << 10;
    case DeviceAttribute::max_shared_memory_per_multiprocessor:
    case DeviceAttribute::max_shared_memory_per_block_optin:
      return 227 << 10;
    case DeviceAttribute::max_registers_per_multiprocessor:
      return 65536;
    case DeviceAttribute::warp_size:
      return 32;
    case DeviceAttribute::clock_rate:
      return 1'000'000;
    case DeviceAttribute::multiprocessor_count:
      return static_cast<int>((driver.settings.claimed_blocks != 0 ? driver.settings.claimed_blocks
                                                                   : driver.settings.resident_blocks) /
                              driver.settings.blocks_per_multiprocessor);
    case DeviceAttribute::async_engine_count:
      return 2;
    case DeviceAttribute::compute_capability_major:
      return driver.settings.capability / 10;
    case DeviceAttribute::compute_capability_minor:
      return driver.settings.capability % 10;
    case DeviceAttribute::mem_sync_domain_count:
      return driver.settings.capability >= 90 ? 4 : 1;
    case DeviceAttribute::pci_bus_id:
      return device.number + 1;
    case DeviceAttribute::gpu_direct_rdma_supported:
      return driver.settings.gpu_direct != GpuDirect::off ? 1 : 0;
    case DeviceAttribute::gpu_direct_rdma_flush_writes_options:
      return driver.settings.gpu_direct == GpuDirect::flush ? int{gpu_direct_flush_by_host} : 0;
    case DeviceAttribute::gpu_direct_rdma_writes_ordering:
      return static_cast<int>(driver.settings.gpu_direct == GpuDirect::ordered ? GpuDirectOrdering::owner
                                                                               : GpuDirectOrdering::none);
    case DeviceAttribute::dma_buf_supported:
      return driver.settings.dmabuf ? 1 : 0;
    case DeviceAttribute::mps_enabled:
      return driver.settings.mps ? 1 : 0;
    case DeviceAttribute::virtual_memory_management_supported:
    case DeviceAttribute::posix_descriptor_handles_supported:
      return driver.settings.vmm ? 1 : 0;
    case DeviceAttribute::concurrent_kernels:
    case DeviceAttribute::unified_addressing:
    case DeviceAttribute::stream_priorities_supported:
    case DeviceAttribute::cooperative_launch:
    case DeviceAttribute::host_register_supported:
    case DeviceAttribute::max_blocks_per_multiprocessor:
    case DeviceAttribute::can_use_64_bit_stream_mem_ops:
    case DeviceAttribute::can_use_stream_wait_value_nor:
    case DeviceAttribute::ipc_event_supported:
      return 1;
    default:
      return 0;
  }
}

CuStatus copy_text(const std::string &text, char *to, int bytes) {
  if (to == nullptr || bytes <= 0) return CuStatus::invalid_value;
  std::snprintf(to, static_cast<size_t>(bytes), "%s", text.c_str());
  return CuStatus::success;
}

std::shared_ptr<Context> make_context(State &driver, Device &device) {
  auto context = std::make_shared<Context>();
  context->device = &device;
  context->queues.resize(driver.settings.queue_count);
  context->handle = driver.contexts.add(context);
  context->legacy = start_stream(driver, context, stream_default, 0);
  return context;
}

/// Destroys the context with all its objects, as cuDevicePrimaryCtxRelease_v2 does at the last release.
void destroy_context(State &driver, Lock &lock, const std::shared_ptr<Context> &context) {
  context->device->primary.reset();
  driver.contexts.take(context->handle);
  synchronise(lock, context);
  for (const auto &stream : context->streams) close_stream(stream);
  context->of_threads.clear();  // otherwise the streams and the context would hold each other for ever
  const auto of_context = [&](const auto &object) { return object.context == context; };
  driver.streams.erase_if(of_context);
  driver.events.erase_if(of_context);
  driver.functions.erase_if(of_context);
  for (auto entry = driver.memory.ranges.begin(); entry != driver.memory.ranges.end();) {
    Range &range = entry->second;
    const bool gone = range.context == context->handle && range.kind != RangeKind::mapped;
    if (gone && range.kind != RangeKind::registered) unmap(range.base, range.map_bytes);
    entry = gone ? driver.memory.ranges.erase(entry) : std::next(entry);
  }
}

}  // namespace
}  // namespace soft_cuda

using namespace soft_cuda;

extern "C" {

CuStatus cuDeviceGetCount(int *count) {
  return call(Entry::device_get_count, [&](State &driver, Lock &) {
    if (count == nullptr) return CuStatus::invalid_value;
    *count = static_cast<int>(driver.devices.size());
    return CuStatus::success;
  });
}

CuStatus cuDeviceGet(CuDevice *device, int ordinal) {
  return call_on_device(Entry::device_get, ordinal, [&](State &, Lock &, Device &) {
    if (device == nullptr) return CuStatus::invalid_value;
    *device = ordinal;
    return CuStatus::success;
  });
}

CuStatus cuDeviceGetName(char *name, int bytes, CuDevice ordinal) {
  return call_on_device(Entry::device_get_name, ordinal,
                        [&](State &, Lock &, Device &) { return copy_text("CUDA in software", name, bytes); });
}

CuStatus cuDeviceGetUuid_v2(DeviceUuid *uuid, CuDevice ordinal) {
  return call_on_device(Entry::device_get_uuid, ordinal, [&](State &, Lock &, Device &device) {
    if (uuid == nullptr) return CuStatus::invalid_value;
    *uuid = device.uuid;
    return CuStatus::success;
  });
}

CuStatus cuDeviceGetPCIBusId(char *id, int bytes, CuDevice ordinal) {
  return call_on_device(Entry::device_get_pci_bus_id, ordinal, [&](State &, Lock &, Device &device) {
    std::array<char, 16> text{};
    std::snprintf(text.data(), text.size(), "0000:%02x:00.0", static_cast<unsigned>(device.number + 1) & 0xFF);
    return copy_text(text.data(), id, bytes);
  });
}

CuStatus cuDeviceGetAttribute(int *value, DeviceAttribute attribute, CuDevice ordinal) {
  return call_on_device(Entry::device_get_attribute, ordinal, [&](State &driver, Lock &, Device &device) {
    if (value == nullptr || static_cast<int>(attribute) <= 0 || static_cast<int>(attribute) > 200)
      return CuStatus::invalid_value;
    *value = attribute_of(driver, device, attribute);
    return CuStatus::success;
  });
}

CuStatus cuDeviceTotalMem_v2(size_t *bytes, CuDevice ordinal) {
  return call_on_device(Entry::device_total_mem, ordinal, [&](State &driver, Lock &, Device &) {
    if (bytes == nullptr) return CuStatus::invalid_value;
    *bytes = driver.settings.memory_bytes;
    return CuStatus::success;
  });
}

CuStatus cuDeviceCanAccessPeer(int *can_access, CuDevice ordinal, CuDevice peer) {
  return call_on_device(Entry::device_can_access_peer, ordinal, [&](State &driver, Lock &, Device &device) {
    const Device *const other = device_of(driver, peer);
    if (other == nullptr) return CuStatus::invalid_device;
    if (can_access == nullptr) return CuStatus::invalid_value;
    *can_access = ordinal != peer && driver.settings.peers.reach(device.number, other->number);
    return CuStatus::success;
  });
}

CuStatus cuDeviceGetP2PAttribute(int *value, PeerAttribute attribute, CuDevice from, CuDevice to) {
  return call_on_device(Entry::device_get_p2p_attribute, from, [&](State &driver, Lock &, Device &device) {
    // "CUDA_ERROR_INVALID_DEVICE if srcDevice or dstDevice are not valid or if they represent the same device."
    const Device *const other = device_of(driver, to);
    if (other == nullptr || from == to) return CuStatus::invalid_device;
    const int number = static_cast<int>(attribute);
    if (value == nullptr || number < 1 || number > 4) return CuStatus::invalid_value;
    const Settings &settings = driver.settings;
    const bool reach = settings.peers.reach(device.number, other->number);
    *value = attribute == PeerAttribute::performance_rank || !reach ? 0 : 1;
    if (attribute == PeerAttribute::native_atomics_supported && !settings.nvlink) *value = 0;
    return CuStatus::success;
  });
}

CuStatus cuDevicePrimaryCtxRetain(CuContext *context, CuDevice ordinal) {
  return call_on_device(Entry::primary_ctx_retain, ordinal, [&](State &driver, Lock &, Device &device) {
    if (context == nullptr) return CuStatus::invalid_value;
    if (device.primary == nullptr) device.primary = make_context(driver, device);
    ++device.primary->references;
    *context = device.primary->handle;
    return CuStatus::success;
  });
}

CuStatus cuDevicePrimaryCtxRelease_v2(CuDevice ordinal) {
  return call_on_device(Entry::primary_ctx_release, ordinal, [&](State &driver, Lock &lock, Device &device) {
    const auto context = device.primary;
    if (context == nullptr) return CuStatus::invalid_context;
    if (--context->references == 0) destroy_context(driver, lock, context);
    return CuStatus::success;
  });
}

CuStatus cuDevicePrimaryCtxGetState(CuDevice ordinal, unsigned *flags, int *active) {
  return call_on_device(Entry::primary_ctx_get_state, ordinal, [&](State &, Lock &, Device &device) {
    if (flags == nullptr || active == nullptr) return CuStatus::invalid_value;
    *flags = 0;
    *active = device.primary != nullptr;
    return CuStatus::success;
  });
}

CuStatus cuCtxPushCurrent_v2(CuContext handle) {
  return call(Entry::ctx_push_current, [&](State &driver, Lock &) {
    if (handle == nullptr || driver.contexts.find(handle) == nullptr)
      return driver.contexts.was_known(handle) ? CuStatus::context_is_destroyed : CuStatus::invalid_context;
    auto &stack = this_thread().contexts;
    if (stack.size() >= context_depth_max) return CuStatus::invalid_value;
    stack.push_back(handle);
    return CuStatus::success;
  });
}

CuStatus cuCtxPopCurrent_v2(CuContext *handle) {
  return call(Entry::ctx_pop_current, [&](State &, Lock &) {
    auto &stack = this_thread().contexts;
    if (stack.empty()) return CuStatus::invalid_context;
    if (handle != nullptr) *handle = stack.back();
    stack.pop_back();
    return CuStatus::success;
  });
}

CuStatus cuCtxGetCurrent(CuContext *handle) {
  return call(Entry::ctx_get_current, [&](State &, Lock &) {
    if (handle == nullptr) return CuStatus::invalid_value;
    // "If no context is bound to the calling CPU thread then *pctx is set to NULL and CUDA_SUCCESS is returned."
    const auto &stack = this_thread().contexts;
    *handle = stack.empty() ? nullptr : stack.back();
    return CuStatus::success;
  });
}

CuStatus cuCtxGetDevice(CuDevice *device) {
  return call_in_context(Entry::ctx_get_device, [&](State &, Lock &, const auto &context) {
    if (device == nullptr) return CuStatus::invalid_value;
    *device = context->device->ordinal;
    return CuStatus::success;
  });
}

CuStatus cuCtxSynchronize() {
  return call_in_context(Entry::ctx_synchronize, [&](State &driver, Lock &lock, const auto &context) {
    if (const CuStatus status = check_unsafe_call(driver); status != CuStatus::success) return status;
    synchronise(lock, context);
    return context->error;
  });
}

CuStatus cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  return call_in_context(Entry::ctx_get_stream_priority_range, [&](State &, Lock &, const auto &) {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
    return CuStatus::success;
  });
}

CuStatus cuCtxEnablePeerAccess(CuContext peer, unsigned flags) {
  return call_in_context(Entry::ctx_enable_peer_access, [&](State &driver, Lock &, const auto &context) {
    const auto other = driver.contexts.find(peer);
    if (flags != 0) return CuStatus::invalid_value;
    // "CUDA_ERROR_INVALID_CONTEXT if there is no current context, peerContext is not a valid context, or if the
    // current context is peerContext."
    if (other == nullptr || other == context) return CuStatus::invalid_context;
    if (!driver.settings.peers.reach(context->device->number, other->device->number))
      return CuStatus::peer_access_unsupported;
    return context->peers.insert(other->device->ordinal).second ? CuStatus::success
                                                                : CuStatus::peer_access_already_enabled;
  });
}

CuStatus cuCtxDisablePeerAccess(CuContext peer) {
  return call_in_context(Entry::ctx_disable_peer_access, [&](State &driver, Lock &, const auto &context) {
    const auto other = driver.contexts.find(peer);
    if (other == nullptr || other == context) return CuStatus::invalid_context;
    return context->peers.erase(other->device->ordinal) != 0 ? CuStatus::success : CuStatus::peer_access_not_enabled;
  });
}

}  // extern "C"
