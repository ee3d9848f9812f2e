// SPDX-License-Identifier: Apache-2.0
// Reads what the NVIDIA Management Library reports of devices. It is opened at run time, so nothing of it is linked. A
// machine without it works as well: its NVLinks are unknown, and that is reported.
#pragma once

#include <string>
#include <vector>

#include "src/base/result.h"
#include "src/topo/device.h"

namespace rondo {

/// Returns the devices that `library` (Config::nvml_library) knows, in its order, with address, UUID and NVLinks. A
/// device that it does not let us read is left out. RONDO_ERROR_UNSUPPORTED: there is no such library, it lacks a
/// function, or it does not work. The message says which. NVML is in use only until this returns.
[[nodiscard]] Result<std::vector<Device>> ask_nvml(const std::string &library);

}  // namespace rondo
