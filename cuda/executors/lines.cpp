// SPDX-License-Identifier: Apache-2.0
#include "cuda/executors/lines.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace rondo::cuda {
namespace {

/// Compute capabilities of devices that are known to keep lines whole. A capability is added after a test on such a
/// device.
constexpr std::array known_capabilities{80, 90, 100};

std::string capability_string(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

Error refusal(const std::string &why) {
  return {RONDO_ERROR_UNSUPPORTED,
          "the requested protocol 'll128' (config or RONDO_PROTOCOL) cannot be used: " + why +
              ", so a rank could read data before it has arrived; use 'auto', 'simple' or 'll'"};
}

/// Refuses ranks that share a device, the same on all ranks. Between ranks that shared a device of capability 9.0
/// results were wrong, and the cause is not known (docs/protocols.md).
Result<void> check_own_devices(std::span<const PlacementInfo> infos) {
  for (size_t rank = 1; rank < infos.size(); ++rank)
    for (size_t other = 0; other < rank; ++other)
      if (infos[other].device == infos[rank].device)
        return refusal("ranks " + std::to_string(other) + " and " + std::to_string(rank) +
                       " share a device, within which a line of 128 bytes may be split");
  return {};
}

}  // namespace

Result<void> check_lines(const CudaDriver &driver, const CudaDevice &own, std::span<const PlacementInfo> infos) {
  const auto &known = known_capabilities;
  const std::string name = "CUDA device " + std::to_string(own.ordinal);
  if (std::find(known.begin(), known.end(), own.compute_capability) == known.end()) {
    std::string list;
    for (const int each : known) list += (list.empty() ? "" : ", ") + capability_string(each);
    return refusal(name + " (" + own.name + ") has compute capability " + capability_string(own.compute_capability) +
                   ", and lines of 128 bytes are known to stay whole only on " + list);
  }
  RONDO_TRY(check_own_devices(infos));
  RONDO_TRY_ASSIGN(const auto devices, cuda_devices(driver));
  for (size_t rank = 0; rank < infos.size(); ++rank) {
    const DeviceUuid &theirs = infos[rank].device;
    if (theirs == own.uuid) continue;
    const std::string who = "the device of rank " + std::to_string(rank);
    const auto found = std::find_if(devices.begin(), devices.end(), [&](const auto &it) { return it.uuid == theirs; });
    if (found == devices.end())
      return refusal("this process does not see " + who +
                     " (CUDA_VISIBLE_DEVICES), so it is not known whether NVLink joins them");
    // NVML, which reports links by name, need not be installed.
    if (!has_native_atomics(driver, own.ordinal, found->ordinal))
      return refusal("no NVLink connects " + name + " to " + who + ", and PCIe may split lines of 128 bytes");
  }
  return {};
}

}  // namespace rondo::cuda
