// SPDX-License-Identifier: Apache-2.0
// How long a call takes on a device by what its kernels were counted to do: counts times costs. No schedule is run; the
// counts are those of emulated blocks (src/proto/access_counts.h), the costs those of a device.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "src/base/result.h"
#include "src/proto/access_counts.h"

namespace rondo::sim {

/// What elementary steps cost. The defaults are assumptions for an H100 SXM, to be replaced by what `device_costs`
/// measures (docs/simulator.md).
struct DeviceCosts {
  std::string device = "an H100 SXM, assumed";
  double kernel_us = 1.5;         ///< an empty kernel behind another one in a graph
  double access_ns = 300;         ///< one of a chain of dependent accesses, a hand-over between blocks included
  double release_ns = 500;        ///< of system scope, with stores of the device pending
  double host_access_ns = 900;    ///< a load of host memory
  double link_GBps = 380;         ///< to another device, in one direction
  std::map<uint32_t, double> GBps = {{1, 25}, {128, 2'800}};  ///< read and written, by blocks; constant beyond the last
};

/// Of one rank's kernel.
struct DeviceWork {
  uint64_t blocks = 1;
  std::array<uint64_t, memory_kind_count> bytes{};  ///< read and written, by kind of memory
  uint64_t releases = 0;
  uint64_t host_loads = 0;
  uint64_t chain = 0;
};

/// In microseconds.
struct DeviceTime {
  double kernel = 0;
  double chain = 0;   ///< accesses that wait for each other, over all ranks
  double orders = 0;  ///< releases, and loads of host memory, of the rank whose blocks have the most each
  double moving = 0;  ///< bytes: of all ranks through one device's memory, or of each through its own and its link

  [[nodiscard]] double all() const { return kernel + chain + orders + moving; }
};

/// Between two numbers of blocks the bandwidth is in proportion, below the first one as well.
[[nodiscard]] double bandwidth_of(const DeviceCosts &costs, uint64_t blocks);
/// `ranks`: at least one. Where any of them meets another device's memory, each rank counts as alone on a device.
[[nodiscard]] DeviceTime time_on_device(std::span<const DeviceWork> ranks, const DeviceCosts &costs);
/// Costs are finite and not below 0, bandwidths above.
[[nodiscard]] Result<void> check_costs(const DeviceCosts &costs);

}  // namespace rondo::sim
