// SPDX-License-Identifier: Apache-2.0
// Runs plans on a CUDA device, by kernels (cuda/executors/executor.cpp) or by copies
// (cuda/executors/copy_executor.cpp). docs/gpu.md.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/kernels/operation.h"
#include "cuda/transport/choose.h"
#include "src/engine/device_executor.h"
#include "src/base/config.h"
#include "src/bootstrap/store/store.h"
#include "transports/links.h"

namespace rondo::cuda {

struct DeviceRequest {
  uint32_t rank = 0;
  uint32_t rank_count = 1;
  int32_t device = 0;              ///< ordinal
  uint32_t channel_count = 0;      ///< 0: chosen here
  uint32_t channel_count_max = 0;  ///< 0: no limit
  uint32_t slot_count = 0;         ///< 0: chosen here
  uint32_t slot_bytes = 0;         ///< 0: chosen here
  std::string library;             ///< Config::cuda_library
  std::string key_prefix;
  uint64_t deadline_ns = 0;
  std::vector<uint32_t> nodes;   ///< by rank
  const Links *links = nullptr;  ///< outlives the executor; serves what is between nodes
  std::vector<bool> permitted;   ///< by rank, the peers in schedules that can be chosen; if empty, all
  // Settings that the user asked for, the same on all ranks:
  rondo_device_executor_t executor = RONDO_DEVICE_EXECUTOR_AUTO;
  rondo_protocol_t protocol = RONDO_PROTOCOL_AUTO;
  rondo_kernel_t kernel = RONDO_KERNEL_AUTO;
  bool measured_load_store = false;  ///< `kernel` is auto, and a measured table has rows of load_store
  DeviceHandles handles = DeviceHandles::automatic;
  DeviceLaunch launch = DeviceLaunch::automatic;
  uint64_t timeout_ns = 0;  ///< of an operation
  // Found by connect_device():
  Neighbours neighbours;
  bool shares_launches = false;  ///< by kernels: ranks of one process on one device launch one for all
  bool apart = false;            ///< a setting of the tests: ranks on one device use the code for several devices
  bool mps = false;             ///< kernels of other processes, any number of them, may run on this rank's device
  bool one_process = false;     ///< all ranks of this rank's node are threads of its process
  uint64_t claimed_blocks = 0;  ///< the most that any rank's process had claimed of its device
  bool handles_are_free = false;  ///< nobody asked for `handles`, which are chosen
  /// Devices other than this rank's, if all ranks are threads of one process on several devices. Each device must reach
  /// the memory of each other one and do atomics there; otherwise it is empty.
  std::vector<CuDevice> peer_devices;
  /// The devices of all ranks, by rank, if ranks share what they register; otherwise empty. Such ranks are several
  /// processes of one node, do not take turns on a device, and have load_store unless their devices forbid it.
  std::vector<DeviceUuid> region_devices;
  uint32_t peer_channels = 0;  ///< channels of load_store with peer devices; 0 until agreed on

  [[nodiscard]] uint32_t node_of(uint32_t of) const { return nodes.empty() ? 0 : nodes[of]; }
  [[nodiscard]] bool on_one_node() const {
    return std::all_of(nodes.begin(), nodes.end(), [&](uint32_t node) { return node == nodes[0]; });
  }
  /// Returns whether all ranks are threads of this process on one device, and one kernel can run them all. `executor`
  /// is as chosen.
  [[nodiscard]] bool fits_one_kernel() const {
    return executor == RONDO_DEVICE_EXECUTOR_KERNEL && neighbours.in_process == rank_count && rank_count > 1 &&
           rank_count <= device::ranks_per_kernel_max;
  }
  /// Returns whether neither a kernel nor a protocol is asked for.
  [[nodiscard]] bool is_free() const { return kernel == RONDO_KERNEL_AUTO && protocol == RONDO_PROTOCOL_AUTO; }
  /// Returns whether kernels of load_store are asked for and possible. `executor` is as chosen.
  [[nodiscard]] bool load_store() const {
    return executor == RONDO_DEVICE_EXECUTOR_KERNEL && kernel == RONDO_KERNEL_LOAD_STORE && on_one_node();
  }
};

/// Returns a warning of too few hardware queues, or "" if there are enough or another rank of the process warns. A
/// kernel that waits holds up later work in its hardware queue. So each rank that is a thread needs a queue; with a
/// shared launch, each kernel that runs several ranks does. The application's streams take queues, too, so the most
/// possible queues are needed. `shares`: ranks share launches. `captured`: the calls of each rank are captured by
/// themselves. `request` is as chosen.
[[nodiscard]] std::string warning_of_queues(const DeviceRequest &request, bool shares, bool captured);

/// Returns RONDO_ERROR_UNSUPPORTED without a driver, RONDO_ERROR_INVALID_ARGUMENT if there is no such device.
[[nodiscard]] Result<void> check_device(const std::string &library, int32_t device);

/// Finds the driver and the device, chooses the executor, loads the kernels, and connects the ranks' memories. Every
/// rank calls it. RONDO_ERROR_OUT_OF_RESOURCES: kernels are to run, and the blocks of all ranks that share the device
/// cannot be resident at once. These are the ranks of this process, of all its communicators, and through MPS the
/// communicator's others.
[[nodiscard]] Result<OwnedDeviceExecutor> connect_device(DeviceRequest request, Store &store);

}  // namespace rondo::cuda
