// SPDX-License-Identifier: Apache-2.0
// This probe distinguishes device memory from host memory, for communicators on the host.
#pragma once

#include <array>
#include <string>

#include "cuda/driver/driver.h"
#include "src/base/runtime_library.h"

namespace rondo::cuda {

class PointerProbe {
 public:
  /// Makes a probe that never finds device memory.
  PointerProbe() = default;

  /// Makes a probe, which uses the driver only if this process has loaded it by now. It neither loads nor initialises
  /// the driver.
  [[nodiscard]] static PointerProbe find(const std::string &library) {
    PointerProbe probe;
    // The file is never closed, so the driver stays loaded as long as the probe may call it.
    RuntimeLibrary file;
    if (file.open_loaded(library)) file.find(probe.ask_, "cuPointerGetAttributes");
    return probe;
  }

  /// Returns false if the probe never finds device memory.
  [[nodiscard]] bool asks() const { return ask_ != nullptr; }
  /// Says whether only a device reaches the memory. Managed memory does not count. Any thread may call it, and it makes
  /// no system call.
  [[nodiscard]] bool is_device_memory(const void *pointer) const {
    if (ask_ == nullptr) return false;
    unsigned type = 0, managed = 0;
    std::array attributes{PointerAttribute::memory_type, PointerAttribute::is_managed};
    std::array<void *, attributes.size()> values{&type, &managed};
    // An uninitialised driver has no device memory, and its status says that it is not initialised.
    const CuStatus status = ask_(static_cast<unsigned>(attributes.size()), attributes.data(), values.data(),
                                 reinterpret_cast<DevicePointer>(pointer));
    return status == CuStatus::success && type == static_cast<unsigned>(MemoryType::device) && managed == 0;
  }

 private:
  decltype(CudaDriver::pointer_get_attributes) ask_ = nullptr;
};

}  // namespace rondo::cuda
