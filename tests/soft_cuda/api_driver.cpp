// SPDX-License-Identifier: Apache-2.0
// This file has the driver's initialisation, look-up of entries, and names of errors.
#include <cstdio>
#include <cstring>

#include "tests/soft_cuda/exports.h"
#include "tests/soft_cuda/soft_cuda.h"
#include "tests/soft_cuda/state.h"

namespace soft_cuda {
namespace {

struct EntryAddress {
  const char *name;
  int version;
  void *address;
};

const EntryAddress entries[] = {
#define SOFT_CUDA_ADDRESS(field, name, symbol, version, parameters) {name, version, reinterpret_cast<void *>(&symbol)},
    RONDO_CUDA_ENTRIES(SOFT_CUDA_ADDRESS)
#undef SOFT_CUDA_ADDRESS
};

struct ErrorText {
  CuStatus status;
  const char *name;
  const char *text;
};

constexpr ErrorText error_texts[] = {
    {CuStatus::success, "CUDA_SUCCESS", "no error"},
    {CuStatus::invalid_value, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CuStatus::out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CuStatus::not_initialized, "CUDA_ERROR_NOT_INITIALIZED", "cuInit was not called"},
    {CuStatus::deinitialized, "CUDA_ERROR_DEINITIALIZED", "the driver is shutting down"},
    {CuStatus::stub_library, "CUDA_ERROR_STUB_LIBRARY", "this is a stub"},
    {CuStatus::no_device, "CUDA_ERROR_NO_DEVICE", "no device"},
    {CuStatus::invalid_device, "CUDA_ERROR_INVALID_DEVICE", "there is no device of that ordinal"},
    {CuStatus::invalid_image, "CUDA_ERROR_INVALID_IMAGE", "the image holds no kernels"},
    {CuStatus::invalid_context, "CUDA_ERROR_INVALID_CONTEXT", "no context, or one that does not fit"},
    {CuStatus::map_failed, "CUDA_ERROR_MAP_FAILED", "memory could not be mapped"},
    {CuStatus::no_binary_for_gpu, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernels for this device"},
    {CuStatus::peer_access_unsupported, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "the devices are no peers"},
    {CuStatus::operating_system, "CUDA_ERROR_OPERATING_SYSTEM", "a call to the operating system failed"},
    {CuStatus::invalid_handle, "CUDA_ERROR_INVALID_HANDLE", "the handle stands for nothing"},
    {CuStatus::illegal_state, "CUDA_ERROR_ILLEGAL_STATE", "not in this state"},
    {CuStatus::not_found, "CUDA_ERROR_NOT_FOUND", "nothing of that name"},
    {CuStatus::not_ready, "CUDA_ERROR_NOT_READY", "not finished yet"},
    {CuStatus::illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS", "an address that may not be accessed"},
    {CuStatus::launch_out_of_resources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too much for one launch"},
    {CuStatus::launch_timeout, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch took too long"},
    {CuStatus::peer_access_already_enabled, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is enabled"},
    {CuStatus::peer_access_not_enabled, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access is not enabled"},
    {CuStatus::context_is_destroyed, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "the current context is gone"},
    {CuStatus::host_memory_already_registered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "registered before"},
    {CuStatus::host_memory_not_registered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "not registered"},
    {CuStatus::launch_failed, "CUDA_ERROR_LAUNCH_FAILED", "a kernel failed"},
    {CuStatus::not_permitted, "CUDA_ERROR_NOT_PERMITTED", "not permitted here"},
    {CuStatus::not_supported, "CUDA_ERROR_NOT_SUPPORTED", "not supported"},
    {CuStatus::system_driver_mismatch, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "library and kernel module differ"},
    {CuStatus::stream_capture_unsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "not while a stream is captured"},
    {CuStatus::stream_capture_invalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "the capture failed earlier"},
    {CuStatus::stream_capture_merge, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "two captures may not be joined"},
    {CuStatus::stream_capture_unmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "the capture began elsewhere"},
    {CuStatus::stream_capture_unjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "a stream was not joined back"},
    {CuStatus::stream_capture_isolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "depends on what is not captured"},
    {CuStatus::stream_capture_implicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "the legacy stream would be captured"},
    {CuStatus::captured_event, "CUDA_ERROR_CAPTURED_EVENT", "the event is part of a capture"},
    {CuStatus::stream_capture_wrong_thread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "another thread began it"},
    {CuStatus::unknown, "CUDA_ERROR_UNKNOWN", "unknown"},
};

/// Returns a text as cuGetErrorName documents: "If the error code is not recognized, CUDA_ERROR_INVALID_VALUE will be
/// returned and *pStr will be set to the NULL address."
CuStatus error_text(CuStatus error, const char **text, const char *ErrorText::*field) {
  if (text == nullptr) return CuStatus::invalid_value;
  *text = nullptr;
  for (const ErrorText &row : error_texts)
    if (row.status == error) *text = row.*field;
  return *text == nullptr ? CuStatus::invalid_value : CuStatus::success;
}

/// Returns a UUID that is equal in all processes, as a device's is.
DeviceUuid uuid_of(int number) {
  DeviceUuid uuid{};
  std::memcpy(uuid.bytes, "soft-cuda-dev-", 14);
  uuid.bytes[14] = static_cast<unsigned char>(number >> 8);
  uuid.bytes[15] = static_cast<unsigned char>(number);
  return uuid;
}

CuStatus initialise(State &driver) {
  if (driver.initialised) return CuStatus::success;
  Settings settings;
  std::string why;
  if (!read_settings(settings, why)) {
    std::fprintf(stderr, "soft cuda: %s\n", why.c_str());
    return CuStatus::invalid_value;
  }
  if (settings.visible.empty()) return CuStatus::no_device;
  driver.settings = settings;
  driver.devices.resize(settings.visible.size());
  for (size_t ordinal = 0; ordinal < settings.visible.size(); ++ordinal) {
    Device &device = driver.devices[ordinal];
    device.ordinal = static_cast<int>(ordinal);
    device.number = settings.visible[ordinal];
    device.uuid = uuid_of(device.number);
    device.blocks = std::make_unique<Places>(settings.resident_blocks, settings.blocks_per_multiprocessor);
    if (settings.serial) device.kernels = std::make_unique<Places>(1);
  }
  driver.initialised = true;
  return CuStatus::success;
}

}  // namespace
}  // namespace soft_cuda

using namespace soft_cuda;

extern "C" {

CuStatus cuInit(unsigned flags) {
  if (flags != 0) return CuStatus::invalid_value;
  State &driver = state();
  const std::lock_guard lock(driver.mutex);
  return initialise(driver);
}

CuStatus cuDriverGetVersion(int *version) {
  if (version == nullptr) return CuStatus::invalid_value;
  Settings settings;  // this call may precede cuInit, which reports invalid settings
  std::string why;
  (void)read_settings(settings, why);
  *version = settings.version;
  return CuStatus::success;
}

CuStatus cuGetErrorName(CuStatus error, const char **text) { return error_text(error, text, &ErrorText::name); }

CuStatus cuGetErrorString(CuStatus error, const char **text) { return error_text(error, text, &ErrorText::text); }

CuStatus cuGetProcAddress_v2(const char *symbol, void **function, int version, unsigned long long flags,
                             ProcAddressResult *result) {
  if (symbol == nullptr || function == nullptr || flags > 2) return CuStatus::invalid_value;
  ProcAddressResult found = ProcAddressResult::not_found;
  *function = nullptr;
  Settings settings;
  std::string why;
  const bool denied = read_settings(settings, why) && settings.missing == symbol;
  for (const EntryAddress &entry : entries) {
    if (denied || entry.version > settings.version || std::strcmp(entry.name, symbol) != 0) continue;
    found = version >= entry.version ? ProcAddressResult::success : ProcAddressResult::version_not_sufficient;
    if (found == ProcAddressResult::success) *function = entry.address;
  }
  // "If the symbol could not be found, NULL is returned in *pfn". The status reports it as well.
  if (result != nullptr) *result = found;
  return found == ProcAddressResult::success ? CuStatus::success : CuStatus::not_found;
}

__attribute__((visibility("default"))) void soft_cuda_live(SoftCudaLive *live) {
  State &driver = state();
  const std::lock_guard lock(driver.mutex);
  *live = {};
  live->contexts = driver.contexts.size();
  live->streams = driver.streams.size();
  live->events = driver.events.size();
  live->device_allocations = driver.memory.count(RangeKind::device);
  live->host_allocations = driver.memory.count(RangeKind::host);
  live->host_registrations = driver.memory.count(RangeKind::registered);
  live->memory_handles = driver.memory.handles.size();
  live->reservations = driver.memory.reservations.size();
  live->mappings = driver.memory.count(RangeKind::mapped);
  live->ipc_imports = driver.memory.count(RangeKind::imported);
  live->libraries = driver.libraries.size();
  live->graphs = driver.graphs.size();
  live->graph_execs = driver.graph_execs.size();
}

__attribute__((visibility("default"))) uint64_t soft_cuda_launch_count() {
  State &driver = state();
  const std::lock_guard lock(driver.mutex);
  return driver.launch_count;
}

__attribute__((visibility("default"))) uint64_t soft_cuda_remote_launch_count() {
  State &driver = state();
  const std::lock_guard lock(driver.mutex);
  return driver.remote_launch_count;
}

__attribute__((visibility("default"))) uint64_t soft_cuda_upload_count() {
  State &driver = state();
  const std::lock_guard lock(driver.mutex);
  return driver.upload_count;
}

__attribute__((visibility("default"))) uint64_t soft_cuda_upload_count_of(CuStream handle) {
  State &driver = state();
  const std::lock_guard lock(driver.mutex);
  const auto stream = driver.streams.find(handle);
  return stream == nullptr ? UINT64_MAX : stream->upload_count;
}

__attribute__((visibility("default"))) uint64_t soft_cuda_block_threads() {
  State &driver = state();
  const std::lock_guard lock(driver.mutex);
  return driver.block_threads;
}

__attribute__((visibility("default"))) uint64_t soft_cuda_waiting_launches(uint32_t ordinal) {
  State &driver = state();
  const std::lock_guard lock(driver.mutex);
  const Device *const device = device_of(driver, static_cast<CuDevice>(ordinal));
  return device == nullptr ? 0 : device->blocks->waiting();
}

__attribute__((visibility("default"))) uint64_t soft_cuda_waiting_blocks(uint32_t ordinal) {
  State &driver = state();
  const std::lock_guard lock(driver.mutex);
  const Device *const device = device_of(driver, static_cast<CuDevice>(ordinal));
  return device == nullptr ? 0 : device->blocks->waiting_blocks.load(std::memory_order_relaxed);
}

__attribute__((visibility("default"))) uint64_t soft_cuda_poll_count(uint32_t ordinal) {
  State &driver = state();
  const std::lock_guard lock(driver.mutex);
  const Device *const device = device_of(driver, static_cast<CuDevice>(ordinal));
  return device == nullptr ? 0 : device->blocks->polls.load(std::memory_order_relaxed);
}

__attribute__((visibility("default"))) uint64_t soft_cuda_flush_count() {
  State &driver = state();
  const std::lock_guard lock(driver.mutex);
  return driver.flush_count;
}

__attribute__((visibility("default"))) uint64_t soft_cuda_call_count(uint64_t *queries) {
  *queries = this_thread().query_count;
  return this_thread().call_count;
}

__attribute__((visibility("default"))) uint64_t soft_cuda_captured_count() {
  State &driver = state();
  const std::lock_guard lock(driver.mutex);
  return driver.captured_count;
}

}  // extern "C"
