// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver/driver.h"

#include <array>
#include <map>
#include <memory>
#include <mutex>

#include "src/base/runtime_library.h"

namespace rondo::cuda {
namespace {

Error unusable(const std::string &library, const std::string &why) {
  return {RONDO_ERROR_UNSUPPORTED, "the CUDA driver (" + library + ") cannot be used: " + why};
}

Result<void *> find_entry(GetProcAddress get, const std::string &library, const char *name, int version) {
  void *function = nullptr;
  ProcAddressResult found = ProcAddressResult::success;
  const CuStatus status = get(name, &function, version, proc_address_default, &found);
  if (status == CuStatus::success && found == ProcAddressResult::success && function != nullptr) return function;
  const char *const why = found == ProcAddressResult::version_not_sufficient ? " in the required version" : "";
  return unusable(library, std::string("it has no ") + name + why + "; Rondo needs one for CUDA " +
                               cuda_version_string(driver_version_min) + " or newer");
}

/// Returns the error for `status` before the driver is initialised and can describe it.
Result<void> check_init(const CudaDriver &driver, CuStatus status) {
  switch (status) {
    case CuStatus::success:
      return {};
    case CuStatus::no_device:
      return unusable(driver.library, "it sees no device");
    case CuStatus::stub_library:
      return unusable(driver.library, "it is the toolkit's stub; put the driver's own libcuda.so.1 before it");
    case CuStatus::system_driver_mismatch:
      return unusable(driver.library, "it and the kernel module are of different versions");
    default:
      break;
  }
  Error error = cuda_error(driver, status, "cuInit");
  return unusable(driver.library, error.message);
}

/// The tables of this process. They are never destroyed, because threads may use a table until the process ends.
struct Tables {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<const CudaDriver>> by_library;
};

Tables &tables() {
  static Tables *const instance = new Tables;
  return *instance;
}

rondo_status_t status_of(CuStatus status) {
  switch (status) {
    case CuStatus::out_of_memory:
    case CuStatus::launch_out_of_resources:
      return RONDO_ERROR_OUT_OF_RESOURCES;
    case CuStatus::invalid_value:
    case CuStatus::invalid_device:
      return RONDO_ERROR_INVALID_ARGUMENT;
    case CuStatus::invalid_handle:
    case CuStatus::invalid_context:
    case CuStatus::context_is_destroyed:
      return RONDO_ERROR_INVALID_HANDLE;
    case CuStatus::not_ready:
      return RONDO_NOT_READY;
    case CuStatus::no_device:
    case CuStatus::no_binary_for_gpu:
    case CuStatus::not_found:
    case CuStatus::peer_access_unsupported:
    case CuStatus::not_supported:
    case CuStatus::stream_capture_unsupported:
      return RONDO_ERROR_UNSUPPORTED;
    default:
      return RONDO_ERROR_SYSTEM;
  }
}

}  // namespace

std::string cuda_version_string(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Result<CudaDriver> load_cuda_driver(const std::string &library) {
  RuntimeLibrary file;
  if (!file.open(library))
    return unusable(library, file.why() + "; install NVIDIA's driver, or name another library in RONDO_CUDA_LIBRARY");
  GetProcAddress get = nullptr;
  file.find(get, get_proc_address_symbol);
  if (get == nullptr)
    return unusable(library, "it has no " + file.missing() + "; Rondo needs a driver for CUDA " +
                                 cuda_version_string(driver_version_min) + " or newer");
  CudaDriver driver;
  driver.library = library;
  // The version is read first, because an old version explains missing entries.
  void *entry = nullptr;
  RONDO_TRY_ASSIGN(entry, find_entry(get, library, "cuDriverGetVersion", 2020));
  driver.driver_get_version = reinterpret_cast<decltype(driver.driver_get_version)>(entry);
  if (driver.driver_get_version(&driver.version) != CuStatus::success || driver.version < driver_version_min)
    return unusable(library, "it is for CUDA " + cuda_version_string(driver.version) + "; Rondo needs " +
                                 cuda_version_string(driver_version_min) + " or newer");
#define RONDO_CUDA_FILL(field, name, symbol, entry_version, parameters)                       \
  {                                                                                           \
    const auto found = find_entry(get, library, name, entry_version);                         \
    if (!found.ok() && entry_version <= driver_version_min) return found.error();             \
    driver.field = reinterpret_cast<decltype(driver.field)>(found.ok() ? found.value() : nullptr); \
  }
  RONDO_CUDA_ENTRIES(RONDO_CUDA_FILL)
#undef RONDO_CUDA_FILL
  RONDO_TRY(check_init(driver, driver.init(0)));
  return driver;
}

Result<const CudaDriver *> cuda_driver(const std::string &library) {
  Tables &known = tables();
  const std::lock_guard lock(known.mutex);
  std::unique_ptr<const CudaDriver> &slot = known.by_library[library];
  if (slot == nullptr) {
    RONDO_TRY_ASSIGN(CudaDriver loaded, load_cuda_driver(library));
    slot = std::make_unique<const CudaDriver>(std::move(loaded));
  }
  return slot.get();
}

Error cuda_error(const CudaDriver &driver, CuStatus status, const std::string &what) {
  const char *name = nullptr;
  const char *text = nullptr;
  if (driver.get_error_name(status, &name) != CuStatus::success || name == nullptr) name = "CUDA error";
  if (driver.get_error_string(status, &text) != CuStatus::success || text == nullptr) text = "unknown to this driver";
  return {status_of(status), what + ": " + name + " (" + std::to_string(static_cast<int>(status)) + "): " + text};
}

Result<int> device_attribute(const CudaDriver &driver, CuDevice device, DeviceAttribute attribute) {
  int value = 0;
  RONDO_TRY(cuda_check(driver, driver.device_get_attribute(&value, attribute, device), "cuDeviceGetAttribute"));
  return value;
}

bool has_native_atomics(const CudaDriver &driver, CuDevice from, CuDevice to) {
  for (const PeerAttribute attribute : {PeerAttribute::access_supported, PeerAttribute::native_atomics_supported}) {
    int value = 0;
    if (driver.device_get_p2p_attribute(&value, attribute, from, to) != CuStatus::success || value == 0) return false;
  }
  return true;
}

Result<std::vector<CudaDevice>> cuda_devices(const CudaDriver &driver) {
  int count = 0;
  RONDO_TRY(cuda_check(driver, driver.device_get_count(&count), "cuDeviceGetCount"));
  std::vector<CudaDevice> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CudaDevice device;
    RONDO_TRY(cuda_check(driver, driver.device_get(&device.ordinal, ordinal), "cuDeviceGet"));
    std::array<char, 256> text{};
    constexpr int text_bytes = static_cast<int>(text.size());
    RONDO_TRY(cuda_check(driver, driver.device_get_name(text.data(), text_bytes, device.ordinal), "cuDeviceGetName"));
    device.name = text.data();
    RONDO_TRY(cuda_check(driver, driver.device_get_pci_bus_id(text.data(), text_bytes, device.ordinal),
                         "cuDeviceGetPCIBusId"));
    device.pci_bus_id = text.data();
    RONDO_TRY(cuda_check(driver, driver.device_get_uuid(&device.uuid, device.ordinal), "cuDeviceGetUuid"));
    size_t bytes = 0;
    RONDO_TRY(cuda_check(driver, driver.device_total_mem(&bytes, device.ordinal), "cuDeviceTotalMem"));
    device.memory_bytes = bytes;
    RONDO_TRY_ASSIGN(const int major,
                     device_attribute(driver, device.ordinal, DeviceAttribute::compute_capability_major));
    RONDO_TRY_ASSIGN(const int minor,
                     device_attribute(driver, device.ordinal, DeviceAttribute::compute_capability_minor));
    device.compute_capability = 10 * major + minor;
    RONDO_TRY_ASSIGN(device.multiprocessor_count,
                     device_attribute(driver, device.ordinal, DeviceAttribute::multiprocessor_count));
    devices.push_back(std::move(device));
  }
  return devices;
}

Result<PointerInfo> pointer_info(const CudaDriver &driver, const void *pointer) {
  PointerInfo info;
  unsigned type = 0;
  int device = -1;
  unsigned legacy_ipc_capable = 0, is_managed = 0;
  std::array attributes{PointerAttribute::memory_type, PointerAttribute::device_ordinal,
                        PointerAttribute::range_start, PointerAttribute::range_size,
                        PointerAttribute::buffer_id,   PointerAttribute::is_legacy_ipc_capable,
                        PointerAttribute::is_managed,  PointerAttribute::device_pointer};
  std::array<void *, attributes.size()> values{&type,           &device,
                                               &info.range_start, &info.range_bytes,
                                               &info.buffer_id, &legacy_ipc_capable,
                                               &is_managed,     &info.on_device};
  RONDO_TRY(cuda_check(driver,
                       driver.pointer_get_attributes(static_cast<unsigned>(attributes.size()), attributes.data(),
                                                     values.data(), reinterpret_cast<DevicePointer>(pointer)),
                       "cuPointerGetAttributes"));
  if (type == static_cast<unsigned>(MemoryType::device)) info.type = MemoryType::device;
  if (type == static_cast<unsigned>(MemoryType::host)) info.type = MemoryType::host;
  info.device = info.type == MemoryType::unknown ? -1 : device;
  info.legacy_ipc_capable = legacy_ipc_capable != 0;
  info.is_managed = is_managed != 0;
  return info;
}

}  // namespace rondo::cuda
