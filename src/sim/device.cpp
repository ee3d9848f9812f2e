// SPDX-License-Identifier: Apache-2.0
#include "src/sim/device.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace rondo::sim {
namespace {

constexpr double ns_per_us = 1e3;

double us_of(uint64_t bytes, double GBps) { return static_cast<double>(bytes) / GBps / ns_per_us; }

double per_block(uint64_t count, const DeviceWork &rank) {
  return static_cast<double>(count) / static_cast<double>(std::max<uint64_t>(rank.blocks, 1));
}

uint64_t device_bytes(const DeviceWork &rank) {
  return rank.bytes[own_device_memory] + rank.bytes[other_device_memory];
}

bool on_several_devices(std::span<const DeviceWork> ranks) {
  return std::any_of(ranks.begin(), ranks.end(),
                     [](const auto &rank) { return rank.bytes[other_device_memory] != 0; });
}

/// Returns the length of the rank's chain of accesses. Adds of all ranks to one word count as one, because a device
/// performs such adds much faster than a block gets an answer.
double chain_of(const DeviceWork &rank, size_t ranks_of_device) {
  const double others = per_block(rank.adds, rank) * static_cast<double>(ranks_of_device - 1);
  return std::max(static_cast<double>(rank.chain) - others, 0.0);
}

/// Returns the number of adds at the end: one if a rank has several blocks, since the add shows the last block that all
/// others have ended.
uint64_t adds_at_end(const DeviceWork &rank) { return rank.blocks > 1 ? 1 : 0; }

double moving_us(std::span<const DeviceWork> ranks, const DeviceCosts &costs) {
  if (!on_several_devices(ranks)) {
    uint64_t bytes = 0, blocks = 0;
    for (const DeviceWork &rank : ranks) bytes += device_bytes(rank), blocks += rank.blocks;
    return us_of(bytes, bandwidth_of(costs, blocks));
  }
  double longest = 0;
  for (const DeviceWork &rank : ranks)
    longest = std::max({longest, us_of(device_bytes(rank), bandwidth_of(costs, rank.blocks)),
                        us_of(rank.bytes[other_device_memory], costs.link_GBps)});
  return longest;
}

}  // namespace

double bandwidth_of(const DeviceCosts &costs, uint64_t blocks) {
  double below_blocks = 0, below = 0;
  for (const auto &[count, GBps] : costs.GBps) {
    if (blocks <= count)
      return below + (GBps - below) * (static_cast<double>(std::max<uint64_t>(blocks, 1)) - below_blocks) /
                         (count - below_blocks);
    below_blocks = count;
    below = GBps;
  }
  return below;
}

DeviceTime time_on_device(std::span<const DeviceWork> ranks, const DeviceCosts &costs) {
  DeviceTime time;
  const size_t ranks_of_device = on_several_devices(ranks) ? 1 : ranks.size();
  time.kernel = static_cast<double>(ranks_of_device) * costs.kernel_us + costs.begin_end_us;
  for (const DeviceWork &rank : ranks) {
    const double adds = per_block(rank.adds, rank) + static_cast<double>(adds_at_end(rank));
    time.chain = std::max(time.chain, chain_of(rank, ranks_of_device) * costs.access_ns / ns_per_us);
    time.orders = std::max(time.orders, (per_block(rank.releases, rank) * costs.release_ns +
                                         adds * costs.ordered_add_ns +
                                         per_block(rank.host_loads, rank) * costs.host_access_ns) /
                                            ns_per_us);
  }
  time.moving = moving_us(ranks, costs);
  return time;
}

Result<void> check_costs(const DeviceCosts &costs) {
  for (const double cost : {costs.kernel_us, costs.begin_end_us, costs.access_ns, costs.release_ns,
                            costs.ordered_add_ns, costs.host_access_ns})
    if (!std::isfinite(cost) || cost < 0) return Error{RONDO_ERROR_INVALID_ARGUMENT, "a cost is less than nothing"};
  const auto is_bandwidth = [](double GBps) { return std::isfinite(GBps) && GBps > 0; };
  bool moves = is_bandwidth(costs.link_GBps) && !costs.GBps.empty() && costs.GBps.begin()->first != 0;
  for (const auto &[blocks, GBps] : costs.GBps) moves &= is_bandwidth(GBps);
  if (moves) return {};
  return Error{RONDO_ERROR_INVALID_ARGUMENT, "the costs need bandwidths above 0, of one block or more"};
}

}  // namespace rondo::sim
