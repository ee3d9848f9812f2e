// SPDX-License-Identifier: Apache-2.0
// This file finds the CUDA devices that the command can use, through the driver that the configuration names.
#pragma once

#include <vector>

#include "cuda/driver/driver.h"
#include "src/base/config.h"
#include "src/base/result.h"

namespace rondo::cli {

struct VisibleDevices {
  const cuda::CudaDriver *driver = nullptr;
  std::vector<cuda::CudaDevice> devices;
};

/// Returns the driver and its devices. RONDO_ERROR_UNSUPPORTED: there is no driver, or it shows no device.
[[nodiscard]] inline Result<VisibleDevices> find_visible_devices() {
  VisibleDevices found;
  RONDO_TRY_ASSIGN(const Config config, read_config());
  RONDO_TRY_ASSIGN(found.driver, cuda::cuda_driver(config.cuda_library));
  RONDO_TRY_ASSIGN(found.devices, cuda::cuda_devices(*found.driver));
  if (!found.devices.empty()) return found;
  return Error{RONDO_ERROR_UNSUPPORTED, "there is a CUDA driver, but it shows no device (CUDA_VISIBLE_DEVICES)"};
}

}  // namespace rondo::cli
