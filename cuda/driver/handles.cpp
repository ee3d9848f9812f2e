// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver/handles.h"

#include "src/base/log.h"

namespace rondo::cuda {
namespace {

void note_failure(const CudaDriver &driver, CuStatus status, const char *what) {
  if (status == CuStatus::success || !log::enabled(log::Level::debug, log::Subsystem::device)) return;
  log::debug(log::Subsystem::device, cuda_error(driver, status, what).message);
}

/// Runs `call` with the context current.
template <class Call>
Result<void> in_context(const PrimaryContext &context, const std::string &what, const Call &call) {
  const CudaDriver &driver = *context.get().driver;
  const ContextGuard guard(driver, context.get().context);
  RONDO_TRY(guard.status());
  const CuStatus status = call(driver);
  if (status != CuStatus::success) return cuda_error(driver, status, what);
  return {};
}

template <class Object>
Owned<Object> owned(const PrimaryContext &context, Object object) {
  return {context.get().driver, context.get().context, object};
}

}  // namespace

ContextGuard::~ContextGuard() {
  if (!pushed_) return;
  CuContext popped = nullptr;
  note_failure(driver_, driver_.ctx_pop_current(&popped), "cuCtxPopCurrent");
}

void close_in_context(const CudaDriver &driver, CuContext context, const char *what, CuStatus (*close)(const void *),
                      const void *argument) {
  const ContextGuard guard(driver, context);
  note_failure(driver, close(argument), what);
}

void PrimaryContextTraits::close(Handle handle) {
  note_failure(*handle.driver, handle.driver->primary_ctx_release(handle.device), "cuDevicePrimaryCtxRelease");
}

Result<PrimaryContext> retain_primary_context(const CudaDriver &driver, CuDevice device) {
  CuContext context = nullptr;
  RONDO_TRY(cuda_check(driver, driver.primary_ctx_retain(&context, device), "cuDevicePrimaryCtxRetain"));
  return PrimaryContext({&driver, device, context});
}

Result<PrimaryContext> open_peer_device(const PrimaryContext &context, CuDevice peer) {
  const auto &[driver, device, object] = context.get();
  RONDO_TRY_ASSIGN(PrimaryContext theirs, retain_primary_context(*driver, peer));
  const ContextGuard guard(*driver, object);
  RONDO_TRY(guard.status());
  const CuStatus enabled = driver->ctx_enable_peer_access(theirs.get().context, 0);
  if (enabled != CuStatus::success && enabled != CuStatus::peer_access_already_enabled)
    return cuda_error(*driver, enabled, "access from device " + std::to_string(device) + " to device " +
                                            std::to_string(peer));
  return theirs;
}

Result<Stream> make_stream(const PrimaryContext &context, int priority) {
  CuStream stream = nullptr;
  RONDO_TRY(in_context(context, "cuStreamCreateWithPriority", [&](const CudaDriver &driver) {
    return driver.stream_create(&stream, stream_non_blocking, priority);
  }));
  return Stream(owned(context, stream));
}

Result<Event> make_event(const PrimaryContext &context, unsigned flags) {
  CuEvent event = nullptr;
  RONDO_TRY(in_context(context, "cuEventCreate",
                       [&](const CudaDriver &driver) { return driver.event_create(&event, flags); }));
  return Event(owned(context, event));
}

Result<DeviceMemory> allocate_device_memory(const PrimaryContext &context, size_t bytes) {
  DevicePointer pointer = 0;
  RONDO_TRY(in_context(context, "cuMemAlloc of " + std::to_string(bytes) + " bytes",
                       [&](const CudaDriver &driver) { return driver.mem_alloc(&pointer, bytes); }));
  return DeviceMemory(owned(context, pointer));
}

Result<HostMemory> allocate_host_memory(const PrimaryContext &context, size_t bytes) {
  void *pointer = nullptr;
  RONDO_TRY(in_context(context, "cuMemHostAlloc of " + std::to_string(bytes) + " bytes", [&](const CudaDriver &driver) {
    return driver.mem_host_alloc(&pointer, bytes, host_alloc_portable | host_alloc_device_map);
  }));
  return HostMemory(owned(context, pointer));
}

Result<Library> load_library(const PrimaryContext &context, const void *image) {
  CuLibrary library = nullptr;
  RONDO_TRY(in_context(context, "cuLibraryLoadData of the kernels", [&](const CudaDriver &driver) {
    return driver.library_load_data(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0);
  }));
  return Library(owned(context, library));
}

Result<CuFunction> find_function(const Library &library, const char *name) {
  const auto &[driver, context, object] = library.get();
  const ContextGuard guard(*driver, context);
  RONDO_TRY(guard.status());
  CuKernel kernel = nullptr;
  CuFunction function = nullptr;
  CuStatus status = driver->library_get_kernel(&kernel, object, name);
  if (status == CuStatus::success) status = driver->kernel_get_function(&function, kernel);
  int threads = 0;  // querying this attribute loads the function, too; cuFuncLoad needs CUDA 12.4
  if (status == CuStatus::success)
    status = driver->func_load != nullptr
                 ? driver->func_load(function)
                 : driver->func_get_attribute(&threads, FunctionAttribute::max_threads_per_block, function);
  if (status != CuStatus::success) return cuda_error(*driver, status, "the kernel " + std::string(name));
  return function;
}

}  // namespace rondo::cuda
