// SPDX-License-Identifier: Apache-2.0
// This file estimates the time of a call on a device. It runs no schedule, but multiplies counted work by costs. The
// counts come from emulated blocks (src/proto/access_counts.h), and the costs from measurements on a device.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "src/base/result.h"
#include "src/proto/access_counts.h"

namespace rondo::sim {

/// The costs of elementary steps. The defaults were measured by `device_costs` on an H200, except two
/// (docs/simulator.md).
struct DeviceCosts {
  std::string device = "an H200, driver 580.159.04, of 2026-11-26";
  double kernel_us = 0.4926;     ///< an empty kernel that follows another one in a graph
  double begin_end_us = 3.3;     ///< fitted time of a kernel that is not empty, without its work
  double access_ns = 127.5;      ///< one access in a chain of dependent accesses, also between blocks
  double release_ns = 558.2;     ///< a release of system scope, with stores of the device pending
  double ordered_add_ns = 1569;  ///< a releasing atomic add, until another block has acquired it and answered
  double host_access_ns = 1278;  ///< a load of host memory
  double link_GBps = 380;        ///< assumed rate to another device, in one direction
  /// The rate of bytes that are read and written, by number of blocks. Beyond the last entry it is constant.
  std::map<uint32_t, double> GBps = {{1, 94.07}, {2, 187.2}, {4, 372.4}, {8, 728.5}, {16, 1'372},
                                     {32, 2'395}, {64, 3'408}, {128, 3'948}, {132, 3'932}};
};

/// The work of one rank's kernel.
struct DeviceWork {
  uint64_t blocks = 1;
  std::array<uint64_t, memory_kind_count> bytes{};  ///< bytes read and written, by kind of memory
  uint64_t releases = 0;
  uint64_t host_loads = 0;
  uint64_t adds = 0;   ///< atomic adds to words to which other ranks add, too
  uint64_t chain = 0;  ///< length of the chain, in which each rank's add to a word counts
};

/// The time of a call, in microseconds.
struct DeviceTime {
  double kernel = 0;  ///< begin and end of kernels; kernels of one device run one after the other
  double chain = 0;   ///< accesses that depend on each other, over all ranks
  double orders = 0;  ///< releases, adds and host loads, of the rank whose blocks have the most
  double moving = 0;  ///< bytes of all ranks in one device's memory, or of each rank in its own memory and its link

  [[nodiscard]] double all() const { return kernel + chain + orders + moving; }
};

/// Returns the bandwidth. Between two numbers of blocks, and below the first one, it is interpolated linearly.
[[nodiscard]] double bandwidth_of(const DeviceCosts &costs, uint64_t blocks);
/// Returns the time of a call. `ranks` is not empty. If any rank accesses another device's memory, each rank is assumed
/// to be alone on its device.
[[nodiscard]] DeviceTime time_on_device(std::span<const DeviceWork> ranks, const DeviceCosts &costs);
/// Checks that costs are finite and not negative, and that bandwidths are positive.
[[nodiscard]] Result<void> check_costs(const DeviceCosts &costs);

}  // namespace rondo::sim
