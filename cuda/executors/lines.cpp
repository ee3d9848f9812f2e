// SPDX-License-Identifier: Apache-2.0
#include "cuda/executors/lines.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace rondo::cuda {
namespace {

/// Compute capabilities of the devices of which it is known; one is added when it has been seen there.
constexpr std::array known_capabilities{80, 90, 100};

std::string capability_string(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

Error refusal(const std::string &why) {
  return {RONDO_ERROR_UNSUPPORTED,
          "the protocol 'll128' that was asked for (config or RONDO_PROTOCOL) cannot be: " + why +
              ", so data could be taken before it is there; use 'auto', 'simple' or 'll'"};
}

/// Refuses ranks that share a device, the same on all ranks. Between ranks that shared a device of capability 9.0
/// results were wrong, and the cause is not known (docs/protocols.md).
Result<void> check_own_devices(std::span<const PlacementInfo> infos) {
  for (size_t rank = 1; rank < infos.size(); ++rank)
    for (size_t other = 0; other < rank; ++other)
      if (infos[other].device == infos[rank].device)
        return refusal("ranks " + std::to_string(other) + " and " + std::to_string(rank) +
                       " share a device, and inside of one a line of 128 bytes may not stay in one piece");
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
                   ", and lines of 128 bytes are known to stay in one piece on " + list + " alone");
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
                     " (CUDA_VISIBLE_DEVICES), so it is not known whether NVLink leads there");
    // NVML, which knows links by their names, need not be installed.
    if (!has_native_atomics(driver, own.ordinal, found->ordinal))
      return refusal("no NVLink leads from " + name + " to " + who + ", and PCIe may take lines of 128 bytes apart");
  }
  return {};
}

}  // namespace rondo::cuda
