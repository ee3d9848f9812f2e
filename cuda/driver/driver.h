// SPDX-License-Identifier: Apache-2.0
// This file declares the CUDA driver as a table of functions that is filled at run time. Nothing of CUDA is linked, so
// the library loads on any host, and can report why a driver is missing. cuda/driver/handles.h has handles that own the
// driver's objects.
#pragma once

#include <string>
#include <vector>

#include "cuda/driver/driver_api.h"
#include "cuda/driver/driver_entries.h"
#include "src/base/result.h"

namespace rondo::cuda {

/// The driver's functions. The table never changes, and its library is never unloaded. Only an entry that is newer than
/// driver_version_min may be null.
struct CudaDriver {
#define RONDO_CUDA_FIELD(field, name, symbol, entry_version, parameters) CuStatus(*field) parameters = nullptr;
  RONDO_CUDA_ENTRIES(RONDO_CUDA_FIELD)
#undef RONDO_CUDA_FIELD

  std::string library;  ///< the name by which it was opened
  int version = 0;      ///< 1000 * major + 10 * minor
};

inline constexpr const char *default_cuda_library = "libcuda.so.1";
inline constexpr int driver_version_min = 12'020;  ///< CUDA 12.2, as of driver release 535, which has long-term support

/// Returns "12.2" for 12'020.
[[nodiscard]] std::string cuda_version_string(int version);

/// Opens `library` (Config::cuda_library), fills a table and calls cuInit. Returns RONDO_ERROR_UNSUPPORTED if the
/// library, a device or an entry is missing, or the driver is too old. The message says which of these it is, and what
/// to do.
[[nodiscard]] Result<CudaDriver> load_cuda_driver(const std::string &library);

/// Returns the process's table for `library`. The first successful call loads the library, which stays loaded until the
/// process ends, so that handles may point to the table. Any thread may call this.
[[nodiscard]] Result<const CudaDriver *> cuda_driver(const std::string &library);

/// Returns `status` as an error of Rondo. The message has `what`, and the name, number and description of the status.
[[nodiscard]] Error cuda_error(const CudaDriver &driver, CuStatus status, const std::string &what);

/// Returns success, or cuda_error().
[[nodiscard]] inline Result<void> cuda_check(const CudaDriver &driver, CuStatus status, const char *what) {
  if (status == CuStatus::success) return {};
  return cuda_error(driver, status, what);
}

struct CudaDevice {
  CuDevice ordinal = 0;
  std::string name;
  DeviceUuid uuid{};
  std::string pci_bus_id;  ///< "0000:3b:00.0"
  uint64_t memory_bytes = 0;
  int compute_capability = 0;  ///< 90 for 9.0
  int multiprocessor_count = 0;
};

/// Returns the devices that this process sees, by ordinal.
[[nodiscard]] Result<std::vector<CudaDevice>> cuda_devices(const CudaDriver &driver);

[[nodiscard]] Result<int> device_attribute(const CudaDriver &driver, CuDevice device, DeviceAttribute attribute);

/// Says whether kernels on `from` can access memory of `to`, with native atomics. They can over NVLink, but not over
/// PCIe.
[[nodiscard]] bool has_native_atomics(const CudaDriver &driver, CuDevice from, CuDevice to);

/// The facts about a pointer that Rondo queries in one call, above all where its memory is.
struct PointerInfo {
  MemoryType type = MemoryType::unknown;  ///< unknown: ordinary host memory, or no memory at all
  CuDevice device = -1;
  DevicePointer range_start = 0;
  size_t range_bytes = 0;
  uint64_t buffer_id = 0;           ///< of the allocation; unique in this process
  bool legacy_ipc_capable = false;  ///< cuIpcGetMemHandle accepts it
  bool is_managed = false;          ///< every device reaches it, whatever `device` is
  DevicePointer on_device = 0;      ///< the address under which devices reach it, or 0
};

/// Returns what the driver knows about `pointer`. A context must be current on this thread.
[[nodiscard]] Result<PointerInfo> pointer_info(const CudaDriver &driver, const void *pointer);

}  // namespace rondo::cuda
