// SPDX-License-Identifier: Apache-2.0
// `--hosts a:2,b:2` and the text of --hostfile, as values. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"

namespace rondo::cli {

struct HostShare {
  std::string host;         ///< as ssh takes it: a name, an address, user@name
  uint32_t rank_count = 1;
};

/// Parses "a:2,b:2", "user@a,[2001:db8::1]:4", or ranges as Slurm writes them: "node[01-03,07]:8". Ranks are numbered
/// host by host, in that order.
[[nodiscard]] Result<std::vector<HostShare>> parse_hosts(std::string_view text);

/// Parses the lines of a host file: "a slots=2", "a:2" or "a", with '#' before comments. A host that several lines name
/// has the ranks of all of them.
[[nodiscard]] Result<std::vector<HostShare>> parse_hostfile(std::string_view text);

}  // namespace rondo::cli
