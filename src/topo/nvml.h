// SPDX-License-Identifier: Apache-2.0
// What the NVIDIA Management Library tells of devices. It is opened at run time, so nothing of it is linked, and a
// machine without it is as good as any: its NVLinks are unknown, and that is told.
#pragma once

#include <string>
#include <vector>

#include "src/base/result.h"
#include "src/topo/device.h"

namespace rondo {

/// The devices that `library` (Config::nvml_library) knows, in its order, with address, UUID and NVLinks. One that it
/// does not let us look at is left out. RONDO_ERROR_UNSUPPORTED: there is no such library, it lacks a function, or it
/// does not work; the message says which. NVML is in use only until this returns.
[[nodiscard]] Result<std::vector<Device>> ask_nvml(const std::string &library);

}  // namespace rondo
