// SPDX-License-Identifier: Apache-2.0
// The floor of a collective among ranks on devices: no implementation is faster, since its bytes must move.
//
// Every rank reads what it puts in and writes what it gets, once. A device's time is the sum over its ranks, divided by
// the bandwidth that was measured for a copy inside that device (read and written bytes count). The floor is the
// longest time of a device. All-reduce of B bytes among n ranks on one device: 2 n B / bandwidth. Links between
// devices, waits and launches are not in it.
#pragma once

#include <span>
#include <vector>

#include "bench/perf/cases.h"
#include "bench/perf/group.h"

namespace rondo::perf {

/// Returns the bytes that `rank` must read and write. In place, what stays where it is need not be written.
[[nodiscard]] uint64_t moved_bytes_min(const Case &what, int rank, size_t bytes, Placement placement);

/// Returns the first rank on the same device as `rank`.
[[nodiscard]] size_t first_on_device(std::span<const Member> members, size_t rank);

/// Returns the floor in microseconds.
/// @param copy_GBps  by rank, of its device.
[[nodiscard]] double floor_us(const Case &what, size_t bytes, Placement placement, std::span<const Member> members,
                              std::span<const double> copy_GBps);

}  // namespace rondo::perf
