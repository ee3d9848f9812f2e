// SPDX-License-Identifier: Apache-2.0
// This file describes what every rank knows of each other one before they are connected. The ranks exchange it
// (src/core/group_info.h); transports read it. A transport finds some facts only when it opens a device, such as GIDs
// of verbs and capabilities of a CUDA device. Its ranks exchange those among themselves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rondo {

/// A network interface of a rank's host.
struct NetworkInterface {
  std::string name;     ///< "eth0"
  std::string address;  ///< numeric, of that host; link-local IPv6 with its own "%interface"

  bool operator==(const NetworkInterface &) const = default;
};

struct RankInfo {
  uint32_t node = 0;       ///< equal for ranks that can share memory; counted in the order of their lowest ranks
  uint64_t process = 0;    ///< its number on its node
  std::string host_name;
  std::vector<uint32_t> cores{};  ///< the processing units that it may run on, as its system counts them
  /// The interfaces by rail, as RONDO_INTERFACE chose them; none if there is no such interface.
  std::vector<NetworkInterface> interfaces{};

  /// Describes the rank for people: "rank 2 (host b, process 17)".
  [[nodiscard]] std::string describe(uint32_t rank) const {
    return "rank " + std::to_string(rank) + " (host " + host_name + ", process " + std::to_string(process) + ")";
  }
  bool operator==(const RankInfo &) const = default;
};

}  // namespace rondo
