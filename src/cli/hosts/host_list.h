// SPDX-License-Identifier: Apache-2.0
// This file parses `--hosts a:2,b:2` and the text of --hostfile into values. It does no I/O.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"

namespace rondo::cli {

struct HostShare {
  std::string host;         ///< in the form that ssh takes: a name, an address, or user@name
  uint32_t rank_count = 1;
};

/// Parses "a:2,b:2", "user@a,[2001:db8::1]:4", or ranges in the form of Slurm: "node[01-03,07]:8". Ranks are numbered
/// host by host, in that order.
[[nodiscard]] Result<std::vector<HostShare>> parse_hosts(std::string_view text);

/// Parses the lines of a host file: "a slots=2", "a:2" or "a", with '#' before comments. A host on several lines has
/// the ranks of all these lines.
[[nodiscard]] Result<std::vector<HostShare>> parse_hostfile(std::string_view text);

}  // namespace rondo::cli
