// SPDX-License-Identifier: Apache-2.0
// Reads what the NVIDIA Management Library reports of devices. It is opened at run time, so nothing of it is linked. A
// machine without it works as well: its NVLinks are unknown, and that is reported.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/result.h"
#include "src/topo/device.h"

namespace rondo {

/// Returns the devices that `library` (Config::nvml_library) knows, in its order, with address, UUID and NVLinks. A
/// device that it does not let us read is left out. RONDO_ERROR_UNSUPPORTED: there is no such library, it lacks a
/// function, or it does not work. The message says which. NVML is in use only until this returns.
[[nodiscard]] Result<std::vector<Device>> ask_nvml(const std::string &library);

/// The use that kernels of one device make of another one's memory. From `none` on, a value includes those before it.
enum class PeerReach : uint8_t { unknown, none, access, atomics };

/// Returns what the device `own` does with the memory of each of `peers`, which may be hidden from CUDA in this
/// process. Devices have their names as in Device::uuid. Where NVML cannot be used or does not say, it is unknown.
[[nodiscard]] std::vector<PeerReach> ask_nvml_about_peers(const std::string &library, const std::string &own,
                                                          std::span<const std::string> peers);

}  // namespace rondo
