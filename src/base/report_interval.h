// SPDX-License-Identifier: Apache-2.0
// This file says how often the hosts of a communicator report the states of their ranks to each other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace rondo {

inline constexpr uint64_t heartbeat_ns = 200'000'000;

/// A host reports to at most this number of other hosts at a heartbeat. With more hosts, it limits all that it sends.
inline constexpr size_t few_hosts_max = 64;

/// Returns the time between two reports of a host to the same other host.
[[nodiscard]] constexpr uint64_t report_interval_ns(size_t host_count) {
  const size_t others = std::max<size_t>(host_count, 2) - 1;
  return (others + few_hosts_max - 1) / few_hosts_max * heartbeat_ns;
}

}  // namespace rondo
