// SPDX-License-Identifier: Apache-2.0
// These functions choose the executor of a communicator on devices, and the way in which its ranks share memory. They
// do what the user requests. Without a request, they choose what suits the placement of the ranks.
#pragma once

#include <span>
#include <vector>

#include "cuda/driver/driver_api.h"
#include "src/base/config.h"
#include "src/base/kernel_file.h"

namespace rondo::cuda {

/// The most ranks that share registered buffers without a request for load_store. Accesses of more were not counted.
inline constexpr uint32_t region_ranks_by_default = 16;

/// The placement that a rank sends to the others. Names of devices and processes are valid only within a node.
struct PlacementInfo {
  DeviceUuid device{};
  ProcessName process;
  uint32_t mps = 0;       ///< 1: MPS shares its contexts, so processes run beside each other
  uint32_t can_copy = 0;  ///< 1: its device has what the copy-engine executor needs
  uint32_t can_vmm = 0;   ///< 1: its device has memory with descriptors
  uint32_t node = 0;
  uint32_t ordinal = 0;         ///< of its device, in its process
};

/// Returns whether all ranks are on one node.
[[nodiscard]] bool on_one_node(std::span<const PlacementInfo> infos);

/// Says whether contexts take turns: two processes have ranks on one device, and at least one of them does not use MPS.
[[nodiscard]] bool takes_turns(std::span<const PlacementInfo> infos);

/// The ranks whose blocks may be on the device at the same time as this rank's. By default, there is only this rank.
struct Neighbours {
  uint32_t in_process = 1;
  uint32_t in_others = 0;  ///< through MPS; without it processes take turns, and do not share the device
  uint32_t first = 0;      ///< the first rank of this process; its claim includes the ranks in other processes
  uint32_t position = 0;   ///< of this rank, among the ranks of the process
};
[[nodiscard]] Neighbours neighbours_of(uint32_t rank, std::span<const PlacementInfo> infos);

/// Returns PlacedRequest::peer_devices in ascending order, if all devices do atomics on each other's memory. Either all
/// ranks get an empty result, or none does.
[[nodiscard]] std::vector<CuDevice> peer_devices_of(uint32_t rank, std::span<const PlacementInfo> infos);

/// Chooses the executor, which is the same on all ranks. The default is the kernel executor. If contexts take turns, a
/// waiting kernel would use up the turns of its context. Then the default is the copy-engine executor, if all devices
/// support it. On several nodes the default is kernels, because for copies a host thread would move each slice.
[[nodiscard]] rondo_device_executor_t choose_executor(rondo_device_executor_t wanted,
                                                      std::span<const PlacementInfo> infos);

/// Chooses the handles, which are the same on all ranks. If no kind was requested and all ranks use the same addresses,
/// it chooses ipc, which is then plain memory. RONDO_ERROR_UNSUPPORTED: vmm was requested, but a device does not
/// support it.
[[nodiscard]] Result<DeviceHandles> choose_handles(DeviceHandles wanted, std::span<const PlacementInfo> infos);

}  // namespace rondo::cuda
