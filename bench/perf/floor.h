// SPDX-License-Identifier: Apache-2.0
// This file computes the floor: the least time of a collective among ranks on devices. No implementation is faster,
// because the collective's bytes must move.
//
// Every rank reads its input and writes its output once. The time of a device is the sum over its ranks, divided by the
// measured bandwidth of a copy inside the device, which counts bytes read and written. The floor is the longest time of
// a device. For an all-reduce of B bytes among n ranks on one device it is 2 n B / bandwidth. It ignores links between
// devices, waits and launches.
#pragma once

#include <span>
#include <vector>

#include "bench/perf/cases.h"
#include "bench/perf/group.h"

namespace rondo::perf {

/// Returns the bytes that `rank` must read and write. In place, data that stays where it is need not be written.
[[nodiscard]] uint64_t moved_bytes_min(const Case &what, int rank, size_t bytes, Placement placement);

/// Returns the first rank on the same device as `rank`.
[[nodiscard]] size_t first_on_device(std::span<const Member> members, size_t rank);

/// Returns the floor in microseconds.
/// @param copy_GBps  for each rank, the bandwidth of its device
[[nodiscard]] double floor_us(const Case &what, size_t bytes, Placement placement, std::span<const Member> members,
                              std::span<const double> copy_GBps);

}  // namespace rondo::perf
