// SPDX-License-Identifier: Apache-2.0
#include "src/compat/driver.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "src/compat/failure.h"

namespace rondo::compat {
namespace {

using Status = int;
using Context = void *;

constexpr Status success = 0, invalid_context = 201;

/// The functions of the driver, with the names under which the driver exports them.
struct Driver {
  std::string trouble;  ///< empty if all functions were found and the driver is initialised
  Status (*init)(unsigned) = nullptr;
  Status (*error_name)(Status, const char **) = nullptr;
  Status (*get_device)(int *) = nullptr;
  Status (*device_get)(int *, int) = nullptr;
  Status (*retain)(Context *, int) = nullptr;
  Status (*release)(int) = nullptr;
  Status (*push)(Context) = nullptr;
  Status (*pop)(Context *) = nullptr;
  Status (*record)(cudaEvent_t, cudaStream_t) = nullptr;
};

std::string named(const Driver &driver, Status status) {
  const char *name = nullptr;
  const bool known = driver.error_name != nullptr && driver.error_name(status, &name) == success && name != nullptr;
  return known ? name : "CUDA_ERROR_" + std::to_string(status);
}

template <class Function>
void find(void *library, Function *&function, const char *name, std::string &trouble) {
  function = reinterpret_cast<Function *>(::dlsym(library, name));
  if (function == nullptr) trouble += (trouble.empty() ? "the CUDA driver lacks " : ", ") + std::string(name);
}

Driver open_driver() {
  Driver driver;
  const char *const named_library = std::getenv("RONDO_CUDA_LIBRARY");
  const bool is_named = named_library != nullptr && *named_library != '\0';
  void *const library = ::dlopen(is_named ? named_library : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char *const why = ::dlerror();
    driver.trouble = "the CUDA driver cannot be opened: " + std::string(why != nullptr ? why : "dlopen failed") +
                     "; install it, or name its library in RONDO_CUDA_LIBRARY";
    return driver;
  }
  find(library, driver.init, "cuInit", driver.trouble);
  find(library, driver.error_name, "cuGetErrorName", driver.trouble);
  find(library, driver.get_device, "cuCtxGetDevice", driver.trouble);
  find(library, driver.device_get, "cuDeviceGet", driver.trouble);
  find(library, driver.retain, "cuDevicePrimaryCtxRetain", driver.trouble);
  find(library, driver.release, "cuDevicePrimaryCtxRelease_v2", driver.trouble);
  find(library, driver.push, "cuCtxPushCurrent_v2", driver.trouble);
  find(library, driver.pop, "cuCtxPopCurrent_v2", driver.trouble);
  find(library, driver.record, "cuEventRecord", driver.trouble);
  if (!driver.trouble.empty()) return driver;
  if (const Status status = driver.init(0); status != success)
    driver.trouble = "the CUDA driver cannot be used: cuInit: " + named(driver, status);
  return driver;
}

/// Returns the driver. It is never closed, because its threads may run until the process ends.
const Driver &driver() {
  static const auto *const instance = new Driver(open_driver());
  return *instance;
}

ncclResult_t check(Status status, const char *call) {
  if (status == success) return ncclSuccess;
  return fail(ncclUnhandledCudaError, std::string(call) + ": " + named(driver(), status));
}

/// Makes a communicator's device current for the calling thread, until this object is destroyed.
class CurrentContext {
 public:
  [[nodiscard]] ncclResult_t enter(int ordinal) {
    if (!driver().trouble.empty()) return fail(ncclUnhandledCudaError, driver().trouble);
    if (const auto found = check(driver().device_get(&device_, ordinal), "cuDeviceGet"); found != ncclSuccess)
      return found;
    Context context = nullptr;
    const ncclResult_t retained = check(driver().retain(&context, device_), "cuDevicePrimaryCtxRetain");
    retained_ = retained == ncclSuccess;
    if (!retained_) return retained;
    const ncclResult_t pushed = check(driver().push(context), "cuCtxPushCurrent");
    pushed_ = pushed == ncclSuccess;
    return pushed;
  }
  CurrentContext() = default;
  CurrentContext(const CurrentContext &) = delete;
  CurrentContext &operator=(const CurrentContext &) = delete;
  ~CurrentContext() {
    Context context = nullptr;
    if (pushed_) static_cast<void>(driver().pop(&context));
    // This does not free the context, because the communicator uses it.
    if (retained_) static_cast<void>(driver().release(device_));
  }

 private:
  int device_ = 0;
  bool retained_ = false, pushed_ = false;
};

}  // namespace

ncclResult_t current_device(int *device) {
  if (!driver().trouble.empty()) return fail(ncclUnhandledCudaError, driver().trouble);
  const Status status = driver().get_device(device);
  if (status == invalid_context) {
    *device = 0;
    return ncclSuccess;
  }
  return check(status, "cuCtxGetDevice");
}

ncclResult_t record(int device, cudaEvent_t event, cudaStream_t stream) {
  CurrentContext context;
  if (const ncclResult_t current = context.enter(device); current != ncclSuccess) return current;
  return check(driver().record(event, stream), "launchCompletionEvent: cuEventRecord");
}

}  // namespace rondo::compat
