// SPDX-License-Identifier: Apache-2.0
// Estimates the time of a call on a device from the counted work of its kernels: counts times costs. No schedule is
// run. The counts come from emulated blocks (src/proto/access_counts.h), the costs from a device.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "src/base/result.h"
#include "src/proto/access_counts.h"

namespace rondo::sim {

/// Costs of elementary steps. `device_costs` measured the defaults on an H200, except for two (docs/simulator.md).
struct DeviceCosts {
  std::string device = "an H200, driver 580.159.04, of 2026-11-26";
  double kernel_us = 0.4926;     ///< an empty kernel behind another one in a graph
  double begin_end_us = 3.3;     ///< fitted: what a kernel that is not empty takes beside its work
  double access_ns = 127.5;      ///< one of a chain of dependent accesses, a hand-over between blocks included
  double release_ns = 558.2;     ///< of system scope, with stores of the device pending
  double ordered_add_ns = 1569;  ///< an atomic add that releases, until another block has acquired it and answered
  double host_access_ns = 1278;  ///< a load of host memory
  double link_GBps = 380;        ///< assumed: to another device, in one direction
  /// Read and written, by blocks; constant beyond the last.
  std::map<uint32_t, double> GBps = {{1, 94.07}, {2, 187.2}, {4, 372.4}, {8, 728.5}, {16, 1'372},
                                     {32, 2'395}, {64, 3'408}, {128, 3'948}, {132, 3'932}};
};

/// The work of one rank's kernel.
struct DeviceWork {
  uint64_t blocks = 1;
  std::array<uint64_t, memory_kind_count> bytes{};  ///< read and written, by kind of memory
  uint64_t releases = 0;
  uint64_t host_loads = 0;
  uint64_t adds = 0;   ///< atomic ones, to words that other ranks add to as well
  uint64_t chain = 0;  ///< with each rank's add to one word as an access of its own
};

/// In microseconds.
struct DeviceTime {
  double kernel = 0;  ///< of one device they come one after the other, and each begins and ends
  double chain = 0;   ///< accesses that wait for each other, over all ranks
  double orders = 0;  ///< releases, adds and loads of host memory, of the rank whose blocks have the most each
  double moving = 0;  ///< bytes: of all ranks through one device's memory, or of each through its own and its link

  [[nodiscard]] double all() const { return kernel + chain + orders + moving; }
};

/// Returns the bandwidth. Between two numbers of blocks it is in proportion, below the first one as well.
[[nodiscard]] double bandwidth_of(const DeviceCosts &costs, uint64_t blocks);
/// Returns the time of a call; `ranks` has at least one. If any rank accesses another device's memory, each rank counts
/// as alone on a device.
[[nodiscard]] DeviceTime time_on_device(std::span<const DeviceWork> ranks, const DeviceCosts &costs);
/// Costs are finite and not below 0, bandwidths above.
[[nodiscard]] Result<void> check_costs(const DeviceCosts &costs);

}  // namespace rondo::sim
