// SPDX-License-Identifier: Apache-2.0
// What the operating system says about this host, beside the hardware.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/result.h"

namespace rondo {

/// Two processes with equal ids can share memory: one kernel (boot id), and one namespace each of processes (peers find
/// each other under /proc, and read each other's memory by process number), network (local sockets) and users (the
/// permission to do either). So two containers of one machine differ unless they share those three; so do network
/// namespaces that stand for hosts in a test. Without a boot id the name of the host takes its place;
/// RONDO_ERROR_OUT_OF_RESOURCES: there may be one, but no descriptor to read it.
[[nodiscard]] Result<std::string> host_id();

/// The host's own name, for people.
[[nodiscard]] std::string host_name();

/// Processors' worth of time that the cgroups of this process grant, rounded up; 0: no limit.
[[nodiscard]] uint32_t processor_limit();

/// Reads the same from the cgroup file systems below `root`. `groups` is the text of /proc/PID/cgroup. Version 2 is
/// mounted at `root` itself, the controller "cpu" of version 1 at its folder cpu.
[[nodiscard]] uint32_t processor_limit(const std::string &root, const std::string &groups);

/// "QUOTA PERIOD" or "max PERIOD", as in cpu.max; rounded up, 0: no limit, or not to be understood.
[[nodiscard]] uint32_t parse_processor_limit(std::string_view text);

}  // namespace rondo
