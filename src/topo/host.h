// SPDX-License-Identifier: Apache-2.0
// Reads what the operating system reports about this host, beside the hardware.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/result.h"

namespace rondo {

/// Returns an id that is equal for two processes if they can share memory. That takes one kernel (boot id) and three
/// common namespaces:
/// - processes: peers find each other under /proc, and read each other's memory by process number
/// - network: local sockets
/// - users: the permission for both
/// So two containers of one machine differ unless they share all three. The same holds for network namespaces that
/// stand for hosts in a test. Without a boot id the name of the host takes its place. RONDO_ERROR_OUT_OF_RESOURCES:
/// there may be a boot id, but no descriptor to read it.
[[nodiscard]] Result<std::string> host_id();

/// Returns the host's own name, for people.
[[nodiscard]] std::string host_name();

/// Returns the processors' worth of time that the cgroups of this process grant, rounded up; 0 for no limit.
[[nodiscard]] uint32_t processor_limit();

/// Returns the same from the cgroup file systems below `root`. `groups` is the text of /proc/PID/cgroup. Version 2 is
/// mounted at `root` itself, the controller "cpu" of version 1 at its folder cpu.
[[nodiscard]] uint32_t processor_limit(const std::string &root, const std::string &groups);

/// Parses "QUOTA PERIOD" or "max PERIOD", as in cpu.max. The result is rounded up; 0 means no limit, or an unknown
/// form.
[[nodiscard]] uint32_t parse_processor_limit(std::string_view text);

}  // namespace rondo
