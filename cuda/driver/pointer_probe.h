// SPDX-License-Identifier: Apache-2.0
// This probe distinguishes device memory from host memory, for communicators on the host.
#pragma once

#include <string>

#include "cuda/driver/driver.h"

namespace rondo::cuda {

class PointerProbe {
 public:
  /// Makes a probe that never finds device memory.
  PointerProbe() = default;

  /// Makes a probe, which uses the driver only if this process has loaded it by now. It neither loads nor initialises
  /// the driver.
  [[nodiscard]] static PointerProbe find(const std::string &library);

  /// Returns false if the probe never finds device memory.
  [[nodiscard]] bool asks() const { return ask_ != nullptr; }
  /// Says whether only a device reaches the memory. Managed memory does not count. Any thread may call it, and it makes
  /// no system call.
  [[nodiscard]] bool is_device_memory(const void *pointer) const;

 private:
  decltype(CudaDriver::pointer_get_attributes) ask_ = nullptr;
};

}  // namespace rondo::cuda
