// SPDX-License-Identifier: Apache-2.0
// This probe distinguishes a device's memory from the host's, for communicators that are on the host.
#pragma once

#include <string>

#include "cuda/driver/driver.h"

namespace rondo::cuda {

class PointerProbe {
 public:
  /// Makes a probe that never finds device memory.
  PointerProbe() = default;

  /// Makes a probe of the driver if this process has loaded it by now. It loads and initialises nothing itself.
  [[nodiscard]] static PointerProbe find(const std::string &library);

  /// Returns false if is_device_memory() is never true.
  [[nodiscard]] bool asks() const { return ask_ != nullptr; }
  /// Returns whether only a device reaches the memory; managed memory does not count. Any thread; no system call.
  [[nodiscard]] bool is_device_memory(const void *pointer) const;

 private:
  decltype(CudaDriver::pointer_get_attributes) ask_ = nullptr;
};

}  // namespace rondo::cuda
