// SPDX-License-Identifier: Apache-2.0
// This file declares owners of the objects that the CUDA driver creates. An owner keeps the driver's table and, if
// closing needs it, a context. A failed close is only logged, at the level debug. Usually the cause is an earlier
// asynchronous error, which was reported and makes every later call fail.
#pragma once

#include "cuda/driver/driver.h"
#include "src/base/unique_handle.h"

namespace rondo::cuda {

/// Each guard makes `context` current on this thread while the guard lives, whichever context the application uses.
class ContextGuard {
 public:
  /// Pushes `context`, unless it is current already. If ok() is false, the guard does nothing, and status() returns the
  /// error.
  ContextGuard(const CudaDriver &driver, CuContext context) : driver_(driver) {
    CuContext current = nullptr;
    if (driver.ctx_get_current(&current) == CuStatus::success && current == context) return;
    status_ = driver.ctx_push_current(context);
    pushed_ = status_ == CuStatus::success;
  }
  ContextGuard(const ContextGuard &) = delete;
  ContextGuard &operator=(const ContextGuard &) = delete;
  ~ContextGuard();

  [[nodiscard]] bool ok() const { return status_ == CuStatus::success; }
  [[nodiscard]] CuStatus code() const { return status_; }
  [[nodiscard]] Result<void> status() const { return cuda_check(driver_, status_, "cuCtxPushCurrent"); }

 private:
  const CudaDriver &driver_;
  CuStatus status_ = CuStatus::success;
  bool pushed_ = false;
};

/// Lets this thread make calls that the driver calls "potentially unsafe" during a stream capture. Without the guard, a
/// query of a stream or event by any thread of the process would end the capture.
class CaptureModeGuard {
 public:
  explicit CaptureModeGuard(const CudaDriver &driver)
      : driver_(driver), exchanged_(driver.thread_exchange_capture_mode(&mode_) == CuStatus::success) {}
  CaptureModeGuard(const CaptureModeGuard &) = delete;
  CaptureModeGuard &operator=(const CaptureModeGuard &) = delete;
  ~CaptureModeGuard() {
    if (exchanged_) static_cast<void>(driver_.thread_exchange_capture_mode(&mode_));
  }

 private:
  const CudaDriver &driver_;
  CaptureMode mode_ = CaptureMode::relaxed;  ///< after construction the previous mode
  bool exchanged_;
};

/// An object of the driver, with what is needed to close it.
template <class Object>
struct Owned {
  const CudaDriver *driver = nullptr;
  CuContext context = nullptr;
  Object object{};

  bool operator==(const Owned &) const = default;
};

/// Makes the context current, calls `close(argument)`, and logs a failure. The traits below use it.
void close_in_context(const CudaDriver &driver, CuContext context, const char *what, CuStatus (*close)(const void *),
                      const void *argument);

template <class Object, CuStatus (*CudaDriver::*close_entry)(Object)>
struct OwnedTraits {
  using Handle = Owned<Object>;
  static constexpr Handle invalid{};
  static void close(Handle handle) {
    close_in_context(
        *handle.driver, handle.context, "closing a CUDA object",
        [](const void *argument) {
          const auto &owned = *static_cast<const Handle *>(argument);
          return (owned.driver->*close_entry)(owned.object);
        },
        &handle);
  }
};

using Stream = UniqueHandle<OwnedTraits<CuStream, &CudaDriver::stream_destroy>>;
using Event = UniqueHandle<OwnedTraits<CuEvent, &CudaDriver::event_destroy>>;
using DeviceMemory = UniqueHandle<OwnedTraits<DevicePointer, &CudaDriver::mem_free>>;
using HostMemory = UniqueHandle<OwnedTraits<void *, &CudaDriver::mem_free_host>>;
using HostRegistration = UniqueHandle<OwnedTraits<void *, &CudaDriver::mem_host_unregister>>;
using IpcMemory = UniqueHandle<OwnedTraits<DevicePointer, &CudaDriver::ipc_close_mem_handle>>;
using PhysicalMemory = UniqueHandle<OwnedTraits<MemoryHandle, &CudaDriver::vmm_release>>;
using Library = UniqueHandle<OwnedTraits<CuLibrary, &CudaDriver::library_unload>>;
using Graph = UniqueHandle<OwnedTraits<CuGraph, &CudaDriver::graph_destroy>>;
using GraphExec = UniqueHandle<OwnedTraits<CuGraphExec, &CudaDriver::graph_exec_destroy>>;

struct RetainedContext {
  const CudaDriver *driver = nullptr;
  CuDevice device = -1;
  CuContext context = nullptr;

  bool operator==(const RetainedContext &) const = default;
};

struct PrimaryContextTraits {
  using Handle = RetainedContext;
  static constexpr Handle invalid{};
  static void close(Handle handle);
};
/// A reference to the primary context of a device, which the application's CUDA runtime shares.
using PrimaryContext = UniqueHandle<PrimaryContextTraits>;

/// A reserved or mapped range of addresses, as cuMemAddressFree and cuMemUnmap need it.
struct AddressRange {
  const CudaDriver *driver = nullptr;
  CuContext context = nullptr;
  DevicePointer address = 0;
  size_t bytes = 0;

  bool operator==(const AddressRange &) const = default;
};

template <CuStatus (*CudaDriver::*close_entry)(DevicePointer, size_t)>
struct AddressRangeTraits {
  using Handle = AddressRange;
  static constexpr Handle invalid{};
  static void close(Handle handle) {
    close_in_context(
        *handle.driver, handle.context, "closing a range of CUDA addresses",
        [](const void *argument) {
          const auto &range = *static_cast<const Handle *>(argument);
          return (range.driver->*close_entry)(range.address, range.bytes);
        },
        &handle);
  }
};
using ReservedAddresses = UniqueHandle<AddressRangeTraits<&CudaDriver::vmm_address_free>>;
using MappedAddresses = UniqueHandle<AddressRangeTraits<&CudaDriver::vmm_unmap>>;

// These functions make the context current themselves.
[[nodiscard]] Result<PrimaryContext> retain_primary_context(const CudaDriver &driver, CuDevice device);
/// Returns the context of the device `peer`. From then on, kernels of `context` reach all memory that cuMemAlloc
/// allocates on that device.
[[nodiscard]] Result<PrimaryContext> open_peer_device(const PrimaryContext &context, CuDevice peer);
[[nodiscard]] Result<Stream> make_stream(const PrimaryContext &context, int priority = 0);  ///< non-blocking
[[nodiscard]] Result<Event> make_event(const PrimaryContext &context, unsigned flags = event_disable_timing);
/// Allocates memory. Like cuMemAlloc, it may wait for everything that runs on the device, so no collective may be in
/// flight.
[[nodiscard]] Result<DeviceMemory> allocate_device_memory(const PrimaryContext &context, size_t bytes);
[[nodiscard]] Result<HostMemory> allocate_host_memory(const PrimaryContext &context, size_t bytes);
[[nodiscard]] Result<Library> load_library(const PrimaryContext &context, const void *image);
/// Loads the function now, so that its first launch need not load it. The function lives as long as the library.
[[nodiscard]] Result<CuFunction> find_function(const Library &library, const char *name);

}  // namespace rondo::cuda
