// SPDX-License-Identifier: Apache-2.0
// This file finds out which devices of a communicator reach each other's memory. If the driver sees both devices, the
// driver answers. If CUDA_VISIBLE_DEVICES hides one of them, NVML does.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cuda/driver/driver.h"
#include "cuda/executors/choose.h"
#include "cuda/transport/info_exchange.h"
#include "src/topo/device.h"

namespace rondo::cuda {

/// Returns the UUID in the form of Device::uuid (src/topo).
[[nodiscard]] std::string uuid_text(const DeviceUuid &uuid);

/// The table says how the devices of two ranks of a node can access each other's memory. It is the same on all ranks.
class ReachTable {
 public:
  /// Makes the table of a communicator in which no node has ranks on two devices.
  ReachTable() = default;
  /// Makes a table of `rank_count` rows. In row r, rank r says how its device reaches the devices of the other ranks.
  ReachTable(uint32_t rank_count, std::vector<PeerReach> said) : rank_count_(rank_count), said_(std::move(said)) {}

  /// Returns the access that both ranks confirm, which is the smaller of their two answers. If one of them does not
  /// know, the other's answer counts. If neither knows, returns `none`.
  [[nodiscard]] PeerReach between(uint32_t rank, uint32_t peer) const;
  /// Returns the pairs of a node's ranks whose devices do not reach each other, in ascending order, the lesser first.
  [[nodiscard]] std::vector<std::pair<uint32_t, uint32_t>> pairs_apart(std::span<const PlacementInfo> infos) const;
  /// Returns whether all ranks of each node reach each other, with atomics.
  [[nodiscard]] bool all_do_atomics() const;

 private:
  uint32_t rank_count_ = 0;
  std::vector<PeerReach> said_;  ///< empty: all reach each other
};

/// Returns whether a node has ranks on two devices; then ranks call find_reach(). All ranks get the same result.
[[nodiscard]] bool has_several_devices(std::span<const PlacementInfo> infos);

/// Exchanges how each rank's device can access the memory of the others. Every rank calls it if has_several_devices().
/// `device` is this rank's, and `nvml_library` is Config::nvml_library. Logs a warning if an access is unknown.
[[nodiscard]] Result<ReachTable> find_reach(const CudaDriver &driver, const CudaDevice &device,
                                            std::span<const PlacementInfo> infos, const std::string &nvml_library,
                                            InfoExchange &info_exchange);

}  // namespace rondo::cuda
