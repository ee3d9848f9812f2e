// SPDX-License-Identifier: Apache-2.0
// This file declares how an executor on a CUDA device is requested and made. It runs plans by kernels
// (cuda_executor.cpp) or by copies (copy_executor.cpp); docs/gpu-executors.md describes both.
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
  Links *links = nullptr;            ///< outlives the executor; has the links between nodes
  std::vector<bool> permitted{};     ///< by rank, whether it is a peer in a possible schedule; if empty, all ranks are
  bool measured_load_store = false;  ///< settings.kernel is auto, and a measured table has rows of load_store

  [[nodiscard]] bool on_one_node() const { return group.node_count() <= 1; }
  /// Says whether one launch for several ranks is requested.
  [[nodiscard]] bool wants_shared_launch() const { return settings.device_launch == DeviceLaunch::shared; }
  /// Says whether neither a kernel nor a protocol is requested.
  [[nodiscard]] bool is_free() const {
    return settings.kernel == RONDO_KERNEL_AUTO && settings.protocol == RONDO_PROTOCOL_AUTO;
  }
};

/// A request, completed by connect_device(): the placement of all ranks, and what was chosen because of it.
struct PlacedRequest : DeviceRequest {
  rondo_device_executor_t executor = settings.device_executor;  ///< chosen, the same on all ranks
  DeviceHandles handles = settings.device_handles;              ///< chosen, the same on all ranks
  bool handles_are_free = false;  ///< no kind of `handles` was requested
  Neighbours neighbours{};
  bool shares_launches = false;  ///< ranks of one process on one device launch one kernel together
  bool apart = false;            ///< set by tests: ranks on one device use the code for several devices
  bool mps = false;             ///< kernels of any number of other processes may run on this rank's device
  bool one_process = false;     ///< all ranks of this rank's node are threads of its process
  /// The devices other than this rank's, if all ranks are threads of one process on several devices. It is empty unless
  /// each device reaches the memory of every other device and does atomics there.
  std::vector<CuDevice> peer_devices{};
  /// True if ranks share the buffers that they register. They are then several processes of one node that do not take
  /// turns on a device, and their devices do atomics on each other's memory.
  bool shares_regions = false;
  /// Pairs of ranks of a node whose devices do not reach each other, the lesser rank first, in ascending order. Their
  /// links go through host memory. If any such pair exists, no rank has load_store.
  std::vector<std::pair<uint32_t, uint32_t>> pairs_apart{};
  bool several_devices = false;  ///< ranks of a node are on several devices, or `apart`; the same on all ranks

  /// Says whether all ranks are threads of this process on one device, and one kernel can run them all. `executor` must
  /// be chosen already.
  [[nodiscard]] bool fits_one_kernel() const {
    return executor == RONDO_DEVICE_EXECUTOR_KERNEL && neighbours.in_process == rank_count && rank_count > 1 &&
           rank_count <= device::ranks_per_kernel_max;
  }
  /// Says whether kernels of load_store are requested and possible. `executor` must be chosen already.
  [[nodiscard]] bool load_store() const {
    return executor == RONDO_DEVICE_EXECUTOR_KERNEL && settings.kernel == RONDO_KERNEL_LOAD_STORE && on_one_node();
  }
};

/// Returns a warning about too few hardware queues, or "" if there are enough or another rank of the process warns. A
/// waiting kernel blocks later work in its hardware queue. So each rank that is a thread needs a queue of its own. With
/// a shared launch, each kernel that runs several ranks needs one. The application's streams use queues, too, so the
/// driver should provide as many queues as possible. `shares` says whether ranks share launches. `captured` says
/// whether each rank's calls are captured separately. `request` must be complete.
[[nodiscard]] std::string warning_of_queues(const PlacedRequest &request, bool shares, bool captured);
/// Returns the end of a timeout's message if ranks of this process may wait for each other in too few hardware queues.
[[nodiscard]] std::string advice_on_queues(const PlacedRequest &request);
/// Logs `warning`, a result of warning_of_queues(), unless it is "" or the process has logged one. Sets it to "".
void warn_of_queues(uint32_t rank, std::string &&warning);

/// Checks the device. Returns RONDO_ERROR_UNSUPPORTED without a driver, and RONDO_ERROR_INVALID_ARGUMENT without such a
/// device.
[[nodiscard]] Result<void> check_device(const std::string &library, int32_t device);

/// Finds the driver and the device, chooses the executor, loads the kernels, and connects the ranks' memories. Every
/// rank calls it. RONDO_ERROR_OUT_OF_RESOURCES: the blocks of all ranks that share the device cannot be resident at
/// once. These ranks are all ranks of this process, in all its communicators. With MPS, they include the communicator's
/// ranks in other processes.
[[nodiscard]] Result<OwnedDeviceExecutor> connect_device(const DeviceRequest &request, Store &store);

}  // namespace rondo::cuda
