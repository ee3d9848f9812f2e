// SPDX-License-Identifier: Apache-2.0
// This file reads devices from the NVIDIA Management Library, which it opens at run time, so nothing links with it. If
// a machine does not have the library, the NVLinks are unknown, and Rondo reports that.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/result.h"
#include "src/topo/device.h"

namespace rondo {

/// Returns the devices that `library` (Config::nvml_library) knows, in its order, with address, UUID and NVLinks. A
/// device that cannot be read is left out. RONDO_ERROR_UNSUPPORTED: the library does not exist, lacks a function, or
/// does not work. The message has the reason. NVML is in use only during the call.
[[nodiscard]] Result<std::vector<Device>> ask_nvml(const std::string &library);

/// The access that kernels of one device have to another device's memory: loads and stores, or also atomics.
enum class PeerReach : uint8_t { unknown, none, access, atomics };

/// Returns how the device `own` can use the memory of each of `peers`, which may be hidden from CUDA in this process.
/// Devices have their names as in Device::uuid. The answer is unknown if NVML cannot be used or does not report it.
[[nodiscard]] std::vector<PeerReach> ask_nvml_about_peers(const std::string &library, const std::string &own,
                                                          std::span<const std::string> peers);

}  // namespace rondo
