// SPDX-License-Identifier: Apache-2.0
// `--hosts a:2,b:2`, as values. Pure.
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

/// Parses "a:2,b:2" or "user@a,[2001:db8::1]:4". Ranks are numbered host by host, in that order.
[[nodiscard]] Result<std::vector<HostShare>> parse_hosts(std::string_view text);

}  // namespace rondo::cli
