// SPDX-License-Identifier: Apache-2.0
// These functions read facts about this host from the operating system, except about its hardware.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/result.h"

namespace rondo {

/// Returns an id that is equal for two processes if they can share memory. They must have the same kernel (boot id) and
/// the same three namespaces:
/// - processes: needed because peers find each other under /proc, and read each other's memory by process number
/// - network: needed for local sockets
/// - users: needed for the permission to do both
/// So two containers of one machine have different ids unless they share all three. In tests, network namespaces
/// represent hosts, and have different ids, too. If there is no boot id, the name of the host replaces it.
/// RONDO_ERROR_OUT_OF_RESOURCES: no descriptor is left to read the boot id.
[[nodiscard]] Result<std::string> host_id();

/// Returns the host's own name, for people.
[[nodiscard]] std::string host_name();

/// Returns the CPU limit of this process's cgroups, in processors, rounded up. It is 0 if there is no limit.
[[nodiscard]] uint32_t processor_limit();

/// Returns the CPU limit from the cgroup file systems below `root`. `groups` is the text of /proc/PID/cgroup. Version
/// 2 is mounted at `root` itself, and the controller "cpu" of version 1 at its folder cpu.
[[nodiscard]] uint32_t processor_limit(const std::string &root, const std::string &groups);

/// Parses "QUOTA PERIOD" or "max PERIOD", as in cpu.max. The result is rounded up. It is 0 for no limit and for an
/// unknown form.
[[nodiscard]] uint32_t parse_processor_limit(std::string_view text);

}  // namespace rondo
