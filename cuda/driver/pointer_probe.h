// SPDX-License-Identifier: Apache-2.0
// Tells a device's memory from the host's, for communicators that are on the host.
#pragma once

#include <string>

#include "cuda/driver/driver.h"

namespace rondo::cuda {

class PointerProbe {
 public:
  /// Never finds device memory.
  PointerProbe() = default;

  /// Asks the driver if this process has loaded it by now, and never does otherwise: nothing is loaded or initialised.
  [[nodiscard]] static PointerProbe find(const std::string &library);

  /// False: is_device_memory() is never true.
  [[nodiscard]] bool asks() const { return ask_ != nullptr; }
  /// Memory that only a device reaches; managed memory is not. Any thread; no system call.
  [[nodiscard]] bool is_device_memory(const void *pointer) const;

 private:
  decltype(CudaDriver::pointer_get_attributes) ask_ = nullptr;
};

}  // namespace rondo::cuda
