// SPDX-License-Identifier: Apache-2.0
// Runs plans on a CUDA device, by kernels (cuda/executors/cuda_executor.cpp) or by copies
// (cuda/executors/copy_executor.cpp). docs/gpu.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/kernels/operation.h"
#include "cuda/executors/choose.h"
#include "src/engine/device_executor.h"
#include "src/bootstrap/store/store.h"
#include "src/links/init_context.h"
#include "src/links/links.h"

namespace rondo::cuda {

/// The request of a rank for an executor on its device.
struct DeviceRequest : InitContext {
  Links *links = nullptr;            ///< outlives the executor; serves what is between nodes
  std::vector<bool> permitted{};     ///< by rank, the peers in schedules that can be chosen; if empty, all
  bool measured_load_store = false;  ///< settings.kernel is auto, and a measured table has rows of load_store

  [[nodiscard]] bool on_one_node() const { return group.node_count() <= 1; }
  /// Returns whether one launch for several ranks is asked for.
  [[nodiscard]] bool wants_shared_launch() const { return settings.device_launch == DeviceLaunch::shared; }
  /// Returns whether neither a kernel nor a protocol is asked for.
  [[nodiscard]] bool is_free() const {
    return settings.kernel == RONDO_KERNEL_AUTO && settings.protocol == RONDO_PROTOCOL_AUTO;
  }
};

/// A request, and what connect_device() finds of the placement of all ranks and chooses by it.
struct PlacedRequest : DeviceRequest {
  rondo_device_executor_t executor = settings.device_executor;  ///< chosen, the same on all ranks
  DeviceHandles handles = settings.device_handles;              ///< likewise
  bool handles_are_free = false;  ///< nobody asked for `handles`
  Neighbours neighbours{};
  bool shares_launches = false;  ///< by kernels: ranks of one process on one device launch one for all
  bool apart = false;            ///< a setting of the tests: ranks on one device use the code for several devices
  bool mps = false;             ///< kernels of other processes, any number of them, may run on this rank's device
  bool one_process = false;     ///< all ranks of this rank's node are threads of its process
  /// Devices other than this rank's, if all ranks are threads of one process on several devices. Each device must reach
  /// the memory of each other one and do atomics there; otherwise it is empty.
  std::vector<CuDevice> peer_devices{};
  /// Ranks share what they register. They are several processes of one node, do not take turns on a device, and their
  /// devices do atomics on each other's memory.
  bool shares_regions = false;
  /// Ranks of a node whose devices do not reach each other, the lesser rank first, in ascending order. Their links go
  /// through the host's memory, and no rank has load_store.
  std::vector<std::pair<uint32_t, uint32_t>> pairs_apart{};

  /// Returns whether all ranks are threads of this process on one device, and one kernel can run them all. `executor`
  /// is as chosen.
  [[nodiscard]] bool fits_one_kernel() const {
    return executor == RONDO_DEVICE_EXECUTOR_KERNEL && neighbours.in_process == rank_count && rank_count > 1 &&
           rank_count <= device::ranks_per_kernel_max;
  }
  /// Returns whether kernels of load_store are asked for and possible. `executor` is as chosen.
  [[nodiscard]] bool load_store() const {
    return executor == RONDO_DEVICE_EXECUTOR_KERNEL && settings.kernel == RONDO_KERNEL_LOAD_STORE && on_one_node();
  }
};

/// Returns a warning of too few hardware queues, or "" if there are enough or another rank of the process warns. A
/// kernel that waits holds up later work in its hardware queue. So each rank that is a thread needs a queue; with a
/// shared launch, each kernel that runs several ranks does. The application's streams take queues, too, so the most
/// possible queues are needed. `shares`: ranks share launches. `captured`: the calls of each rank are captured by
/// themselves. `request` is as chosen.
[[nodiscard]] std::string warning_of_queues(const PlacedRequest &request, bool shares, bool captured);
/// Logs such a warning, unless it is "" or the process has logged one before. It leaves "".
void warn_of_queues(uint32_t rank, std::string &&warning);

/// Returns RONDO_ERROR_UNSUPPORTED without a driver, RONDO_ERROR_INVALID_ARGUMENT if there is no such device.
[[nodiscard]] Result<void> check_device(const std::string &library, int32_t device);

/// Finds the driver and the device, chooses the executor, loads the kernels, and connects the ranks' memories. Every
/// rank calls it. RONDO_ERROR_OUT_OF_RESOURCES: kernels are to run, and the blocks of all ranks that share the device
/// cannot be resident at once. These are the ranks of this process, of all its communicators, and through MPS the
/// communicator's others.
[[nodiscard]] Result<OwnedDeviceExecutor> connect_device(const DeviceRequest &request, Store &store);

}  // namespace rondo::cuda
